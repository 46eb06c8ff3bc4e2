"""What a container needs for an NPU or a vNPU: device files, and the driver's libraries.

In: chip numbers and vNPU ids, the root of the host's file system. Out: Edits (CDI). Rules: Huawei's container runtime: a
chip's own file, or a vNPU's, which is called like a chip's inside the container, and the driver's manager files.
LD_LIBRARY_PATH is left to the image: CANN's images need their own, and CDI would replace it.
"""

import os
import stat
from pathlib import Path

from apportion.agent.devices.values import DeviceNode, Edits, Mount

_ENV = (("ASCEND_VISIBLE_DEVICES", "void"),)
"""Keeps the vendor's own container runtime from adding devices."""
_MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
_SOME_HAVE = ("dvpp_cmdlist",)
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
    """What the host has in /dev and /usr/local when it is asked."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def whole(self, phy: int) -> Edits:
        """Return what a container needs for a whole chip; `phy` is its physical id."""
        return self._edits(self._node(f"davinci{phy}"))

    def vnpu(self, number: int) -> Edits:
        """Return what a container needs for a vNPU by its id. The chip's own file stays out."""
        return self._edits(self._node(f"davinci{number}", f"vdavinci{number}"))

    def _edits(self, own: DeviceNode) -> Edits:
        extra = [name for name in _SOME_HAVE if (self._root / "dev" / name).exists()]
        nodes = tuple(self._node(name) for name in (*_MANAGERS, *extra))
        mounts = tuple(Mount(path, path) for path in _DRIVER if (self._root / path.lstrip("/")).exists())
        return Edits(_ENV, (*nodes, own), mounts)

    def _node(self, name: str, host: str = "") -> DeviceNode:
        path, address = f"/dev/{name}", f"/dev/{host}" if host else ""
        try:
            found = (self._root / "dev" / (host or name)).stat()
        except OSError:
            return DeviceNode(path, address)
        if not stat.S_ISCHR(found.st_mode):
            return DeviceNode(path, address)
        return DeviceNode(path, address, os.major(found.st_rdev), os.minor(found.st_rdev))
