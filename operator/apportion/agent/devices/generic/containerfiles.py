"""What a container gets for a generic device: device files, mounts, environment, as the host has them now.

In: a device that is there, its kind, its UUID. Out: Edits (CDI), or HardwareError naming what the host lacks.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import PurePosixPath

from apportion.agent.devices.generic import sysfs
from apportion.agent.devices.generic.described import Described, MountPoint, Node
from apportion.agent.devices.generic.sysfs import FoundDevice
from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.values import WRITABLE, DeviceNode, Edits, Mount
from apportion.errors import BrokenInput, Unsupported


class ContainerFiles:
    """For one device."""

    def __init__(self, host: HostFiles, device: FoundDevice, uuid: str) -> None:
        self._host = host
        self._device = device
        card = device.card or device.name
        self._values = {"name": device.name, "card": card, "pci": device.pci_bus_id, "uuid": uuid}

    def edits(self, kind: Described) -> Edits:
        """Return what a container needs. Raises Unsupported when something is not there that it cannot do without."""
        return Edits(
            env=tuple((name, self._filled(text)) for name, text in kind.env.items()),
            nodes=tuple(dict.fromkeys(node for wanted in kind.nodes for node in self._nodes(wanted))),
            mounts=tuple(mount for wanted in kind.mounts for mount in self._mounts(wanted)),
        )

    def _nodes(self, wanted: Node) -> tuple[DeviceNode, ...]:
        if wanted.path is not None:
            place = self._filled(wanted.path)
            found = [self._of_dev(path) for path in sysfs.expand(self._host, place)]
        else:
            place = str(self._device.folder / (wanted.sysfs or ""))
            found = list(self._of_sysfs(place))
        if not found and not wanted.optional:
            raise Unsupported(f"{place}: the host has no such device file")
        if wanted.container is None:
            return tuple(found)
        if len(found) > 1:
            raise Unsupported(
                f"{place}: the host has {len(found)} such device files, and {wanted.container} is one"
            )
        path = self._filled(wanted.container)
        return tuple(DeviceNode(path, node.path, node.major, node.minor) for node in found)

    def _of_dev(self, path: PurePosixPath) -> DeviceNode:
        # The links of /dev (by-path, by-id) are not what programs open.
        real = self._host.resolve(path) or path
        found = self._host.here(real).stat()
        if not stat.S_ISCHR(found.st_mode):
            return DeviceNode(str(real))
        return DeviceNode(str(real), "", os.major(found.st_rdev), os.minor(found.st_rdev))

    def _of_sysfs(self, pattern: str) -> Iterator[DeviceNode]:
        """Yield the device files of folders in /sys: `dev` has the number, DEVNAME in `uevent` the name (linux Documentation/ABI)."""
        for folder in sysfs.expand(self._host, pattern):
            try:
                number = re.fullmatch(r"(\d+):(\d+)", sysfs.text(self._host, folder, "dev"))
            except BrokenInput:
                continue
            if number is not None:
                try:
                    name = sysfs.searched(self._host, folder, "uevent", r"(?m)^DEVNAME=(\S+)$")
                except BrokenInput:
                    name = folder.name
                yield DeviceNode(f"/dev/{name}", "", int(number[1]), int(number[2]))

    def _mounts(self, wanted: MountPoint) -> Iterator[Mount]:
        path = self._filled(wanted.host)
        if self._host.resolve(path) is not None:
            inside = self._filled(wanted.container) if wanted.container is not None else path
            yield Mount(path, inside) if wanted.read_only else Mount(path, inside, WRITABLE)
        elif not wanted.optional:
            raise Unsupported(f"{path}: the host has no such file or folder")

    def _filled(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            known = self._values[found[1]]
            if not known:
                raise Unsupported(f"{text}: {self._device.name} has no {found[1]}")
            return known

        return re.sub(r"\{(\w+)\}", value, text)
