"""What a container needs for an NPU or a vNPU: device files, and the driver's libraries.

In: a chip's name as its driver reports it, its number or vNPU ids, the root of the host's file system. Out: Edits (CDI). Rules:
Huawei's own CDI files (MindCluster, ascend-common/cdi and its mounts): a chip's own file, or a vNPU's, which is called like a
chip's inside the container, the family's manager files as far as the host has them, and the driver's libraries in
LD_LIBRARY_PATH. CDI replaces the image's value: a script of CANN's toolkit, which its images run, adds its folders to ours.
"""

import os
import stat
from pathlib import Path

from apportion.agent.devices.values import DeviceNode, Edits, Mount

_ENV = (("ASCEND_VISIBLE_DEVICES", "void"),)
"""Keeps the vendor's own container runtime from adding devices."""
_MANAGER = "davinci_manager"
_310B_MANAGER = "davinci_manager_docker"
"""What a 310B may have instead, for containers."""
_310B = (
    *("svm0", "ts_aisle", "upgrade", "sys", "vdec", "vpc", "pngd", "venc", "log_drv", "acodec", "ai", "ao"),
    *("vo", "hdmi"),
)
_UB = ("uburma", "ummu")
"""Folders of device files of the UB interconnect."""
_LIBRARIES = ("/usr/local/Ascend/driver/lib64/common", "/usr/local/Ascend/driver/lib64/driver")
_DRIVER = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/include",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/Ascend/driver/topo",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/var/queue_schedule",
    "/etc/ascend_install.info",
    "/etc/hccn.conf",
    "/etc/hccl_rootinfo.json",
)
"""What the runtime binds, where the host has it."""


class NpuFiles:
    """What the host has in /dev and /usr/local for one chip when it is asked."""

    def __init__(self, chip: str, root: Path = Path("/")) -> None:
        """`chip`: its name as the driver reports it, such as `910B4`; it shows the family."""
        self._chip = chip
        self._root = root

    def whole(self, phy: int) -> Edits:
        """Return what a container needs for a whole chip; `phy` is its physical id."""
        return self._edits(self._node(f"davinci{phy}"))

    def vnpu(self, number: int) -> Edits:
        """Return what a container needs for a vNPU by its id. The chip's own file stays out."""
        return self._edits(self._node(f"davinci{number}", f"vdavinci{number}"))

    def _edits(self, own: DeviceNode) -> Edits:
        own_manager = "310B" in self._chip and self._there(f"dev/{_310B_MANAGER}")
        manager = self._node(_MANAGER, _310B_MANAGER if own_manager else "")
        others = [*self._managers(), *(f"{folder}/{name}" for folder in _UB for name in self._names(folder))]
        nodes = (self._node(name) for name in others if self._there(f"dev/{name}"))
        mounts = tuple(Mount(path, path) for path in _DRIVER if self._there(path))
        libraries = ":".join(path for path in _LIBRARIES if self._there(path))
        env = (("LD_LIBRARY_PATH", libraries),) if libraries else ()
        return Edits((*_ENV, *env), (manager, *nodes, own), mounts)

    def _managers(self) -> tuple[str, ...]:
        if "310B" in self._chip:
            return ("dvpp_cmdlist", *_310B)
        return (
            ("hisi_hdc",) if self._chip.startswith("Ascend950") else ("devmm_svm", "hisi_hdc", "dvpp_cmdlist")
        )

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / "dev" / folder).iterdir() if not path.is_dir())
        except OSError:
            return []

    def _there(self, path: str) -> bool:
        return (self._root / path.lstrip("/")).exists()

    def _node(self, name: str, host: str = "") -> DeviceNode:
        path, address = f"/dev/{name}", f"/dev/{host}" if host else ""
        try:
            found = (self._root / "dev" / (host or name)).stat()
        except OSError:
            return DeviceNode(path, address)
        if not stat.S_ISCHR(found.st_mode):
            return DeviceNode(path, address)
        return DeviceNode(path, address, os.major(found.st_rdev), os.minor(found.st_rdev))
