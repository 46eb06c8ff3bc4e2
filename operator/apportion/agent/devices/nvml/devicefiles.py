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

from apportion.agent.devices.nvml.displayfiles import display_files
from apportion.agent.devices.values import DeviceNode, Edits

CREATE_SYMLINKS = "create-symlinks"
"""The toolkit's hook that makes links in a container."""
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
        self._nodes: dict[int, tuple[DeviceNode, ...]] = {}
        """What every container needs of a GPU, by its minor."""

    def whole(self, minor: int, bus_id: str) -> Edits:
        """Return what a container needs for a whole GPU; `minor` and `bus_id` are the GPU's."""
        return self._with_display(replace(self._driver, env=_ENV, nodes=self._gpu(minor)), bus_id)

    def partition(
        self, minor: int, gpu_instance: int, compute_instance: int, *, display_of: str = ""
    ) -> Edits:
        """Return what a container needs for a MIG device; `display_of`: the GPU's bus id, where the profile is one for graphics.

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
        edits = replace(self._driver, env=_ENV, nodes=(*self._gpu(minor), *nodes))
        return self._with_display(edits, display_of) if display_of else edits

    def _with_display(self, edits: Edits, bus_id: str) -> Edits:
        nodes, links = display_files(self._root, bus_id)
        # Without NVIDIA's toolkit nobody makes links, and the files are there all the same.
        tool = next((hook for hook in edits.hooks if CREATE_SYMLINKS in hook.args), None)
        if links and tool is not None:
            start = tool.args[: tool.args.index(CREATE_SYMLINKS) + 1]
            pairs = (word for target, link in links for word in ("--link", f"{target}::{link}"))
            edits = replace(edits, hooks=(*edits.hooks, replace(tool, args=(*start, *pairs))))
        return replace(edits, nodes=(*edits.nodes, *nodes))

    def _gpu(self, minor: int) -> tuple[DeviceNode, ...]:
        if minor not in self._nodes:
            self._nodes[minor] = self._gpu_nodes(minor)
        return self._nodes[minor]

    def _gpu_nodes(self, minor: int) -> tuple[DeviceNode, ...]:
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
