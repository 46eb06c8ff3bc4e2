"""The device files that a container needs for a GPU or a MIG device.

In: minors and instance ids, the root of the host's file system. Out: Edits (CDI). Rules: NVIDIA's container toolkit: a MIG
device needs the control files, its GPU's file and the capability files of its GPU and compute instance, whose minors stand
in /proc/driver/nvidia-caps/mig-minors, or per instance below /proc/driver/nvidia/capabilities.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

from apportion.agent.devices.values import DeviceNode, Edits

NO_DRIVER = Edits()
_ENV = (("NVIDIA_VISIBLE_DEVICES", "void"),)
"""Keeps the vendor's own container runtime from adding devices."""
_CONTROL = (("nvidiactl", "nvidia", 255), ("nvidia-modeset", "nvidia", 254))
_MEMORY = (("nvidia-uvm", "nvidia-uvm", 0), ("nvidia-uvm-tools", "nvidia-uvm", 1))
"""Name, driver in /proc/devices, minor (nv.h, uvm_common.h of NVIDIA's open kernel modules)."""


class DeviceFiles:
    """The host's /proc and /dev as first read; make a new object to read again.

    Majors and minors change when modules are loaded again.
    """

    def __init__(self, root: Path = Path("/"), driver: Edits = NO_DRIVER) -> None:
        """`driver` is what containers need of the driver apart from device files (`driverfiles.py`)."""
        self._root = root
        self._driver = driver

    def whole(self, minor: int) -> Edits:
        """Return what a container needs for a whole GPU; `minor` is the GPU's."""
        return replace(self._driver, env=_ENV, nodes=self._gpu(minor))

    def partition(self, minor: int, gpu_instance: int, compute_instance: int) -> Edits:
        """Return what a container needs for a MIG device.

        On a host whose /proc names no capabilities they are left out: the container then sees no MIG device.
        """
        instance = f"gpu{minor}/gi{gpu_instance}"
        names = (f"{instance}/access", f"{instance}/ci{compute_instance}/access")
        minors = [self._capability(name) for name in names]
        major = self._majors.get("nvidia-caps")
        nodes = (
            DeviceNode(f"/dev/nvidia-caps/nvidia-cap{number}", major=major, minor=number)
            for number in minors
            if number is not None
        )
        return replace(self._driver, env=_ENV, nodes=(*self._gpu(minor), *nodes))

    def _gpu(self, minor: int) -> tuple[DeviceNode, ...]:
        majors = self._majors
        found = [
            self._node(name, majors.get(driver), number)
            for name, driver, number in (*_CONTROL, *_MEMORY)
            # A file that is neither there nor known to the kernel would keep the container from starting.
            if name == "nvidiactl" or driver in majors or (self._root / "dev" / name).exists()
        ]
        return (*found, self._node(f"nvidia{minor}", majors.get("nvidia"), minor))

    def _node(self, name: str, major: int | None, minor: int) -> DeviceNode:
        # With its numbers the runtime makes the file itself: the host need not have it yet.
        return DeviceNode(f"/dev/{name}", major=major, minor=None if major is None else minor)

    @cached_property
    def _majors(self) -> dict[str, int]:
        text = _read(self._root / "proc" / "devices").partition("Block devices:")[0]
        found = {name: int(number) for number, name in re.findall(r"^\s*(\d+) (\S+)$", text, re.MULTILINE)}
        # Older modules register under their own name.
        return {"nvidia": found["nvidia-frontend"], **found} if "nvidia-frontend" in found else found

    @cached_property
    def _minors(self) -> Mapping[str, int]:
        return _numbers(_read(self._root / "proc" / "driver" / "nvidia-caps" / "mig-minors"))

    def _capability(self, name: str) -> int | None:
        if name in self._minors:
            return self._minors[name]
        gpu, _, rest = name.partition("/")
        file = self._root / "proc" / "driver" / "nvidia" / "capabilities" / gpu / "mig" / rest
        found = re.search(r"^DeviceFileMinor:\s*(\d+)$", _read(file), re.MULTILINE)
        return int(found[1]) if found is not None else None


@lru_cache(maxsize=2)
def _numbers(text: str) -> Mapping[str, int]:
    """Read lines of a name and a number; thousands of them, which stay the same as long as the module is loaded."""
    return {name: int(number) for name, number in re.findall(r"^(\S+) (\d+)$", text, re.MULTILINE)}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
