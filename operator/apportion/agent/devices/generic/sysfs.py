"""Generic devices of a host, as the kernel shows them in /sys.

In: the host's files, how devices are found. Out: the devices that are there now, in the order of their names; texts of their
files. Symbolic links are followed as the host would, below its own root.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from apportion.agent.devices.generic.kind import Match, PartKind, PciMatch
from apportion.agent.devices.hostfs import HostFiles
from apportion.errors import BrokenInput

_ROOT = PurePosixPath("/")
_PCI = "/sys/bus/pci/devices"
_BUS_ID = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_LONGEST = 4096
"""Bytes of a file that are read; an attribute of sysfs has no more (linux Documentation/filesystems/sysfs.rst: one page)."""


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device that is there."""

    name: str
    """The kernel's: the name of its folder."""
    folder: PurePosixPath
    """In /sys, as it was found."""
    pci_bus_id: str
    """Its own, or of the PCI device that it belongs to; "" for none."""
    card: str = ""
    """The kernel's name of the card that it is a part of; "" for a card."""


def devices(host: HostFiles, match: Match) -> tuple[FoundDevice, ...]:
    """Return what matches now, `fpga2` before `fpga10`."""
    folders = expand(host, f"{_PCI}/*" if match.path is None else match.path)
    found = (
        FoundDevice(folder.name, folder, _bus_id(host, folder))
        for folder in folders
        if match.pci is None or _is(host, folder, match.pci)
    )
    return tuple(
        sorted(
            (device for device in found if _holds(host, device.folder, match)),
            # Bus ids are hexadecimal, of equal length: their order is that of their letters.
            key=lambda device: (() if match.pci else _natural(device.name), str(device.folder)),
        )
    )


def parts(host: HostFiles, card: FoundDevice, kind: PartKind) -> tuple[FoundDevice, ...]:
    """Return the parts of a card that are there now, as `devices`; parts that are counted have their number as name."""
    if kind.sysfs is None:
        numbers = range(kind.count or 0)
        return tuple(FoundDevice(str(each), card.folder, card.pci_bus_id, card.name) for each in numbers)
    folders = (
        each
        for each in expand(host, kind.sysfs, card.folder)
        if host.here(host.resolve(each) or each).is_dir()
    )
    return tuple(
        FoundDevice(folder.name, folder, card.pci_bus_id, card.name)
        for folder in sorted(folders, key=lambda folder: (_natural(folder.name), str(folder)))
    )


def expand(host: HostFiles, pattern: str, below: PurePosixPath = _ROOT) -> list[PurePosixPath]:
    """Return the files and folders that a pattern finds, in order."""
    found = [below]
    for part in PurePosixPath(pattern).parts:
        if any(sign in part for sign in "*?["):
            found = [place / name for place in found for name in host.names(place) if fnmatchcase(name, part)]
        else:
            found = [place / part for place in found]
    return [place for place in found if host.resolve(place) is not None]


def text(host: HostFiles, folder: PurePosixPath, file: str) -> str:
    """Return the text of a file, without white space around it: of the first that is found, if its path is a pattern.

    An absolute path is not below the folder. Raises BrokenInput when it cannot be read; the reason
    names the file.
    """
    path = next(iter(expand(host, file, folder)), None)
    found = host.resolve(path) if path is not None else None
    if found is None or not host.here(found).is_file():
        raise BrokenInput(f"{folder / file} is no file")
    try:
        with host.here(found).open("rb") as stream:
            # Device trees end their texts with a zero.
            return stream.read(_LONGEST).decode("utf-8", "replace").replace("\0", " ").strip()
    except OSError as error:
        raise BrokenInput(f"{path} cannot be read: {error.strerror}") from None


def searched(host: HostFiles, folder: PurePosixPath, file: str, pattern: str | None) -> str:
    """Return what a pattern finds in a file: its first group, or all of it. Raises BrokenInput as `text`, and for no find."""
    whole = text(host, folder, file)
    if pattern is None:
        return whole
    found = re.search(pattern, whole)
    if found is None:
        raise BrokenInput(f"{folder / file}: {pattern!r} is not in {whole[:40]!r}")
    return (found[1] if found.re.groups else found[0]) or ""


def says(host: HostFiles, folder: PurePosixPath, file: str, pattern: str) -> bool:
    """Return whether the whole text of a file is as a pattern says; not if it cannot be read."""
    try:
        return re.fullmatch(pattern, text(host, folder, file)) is not None
    except BrokenInput:
        return False


def _is(host: HostFiles, folder: PurePosixPath, match: PciMatch) -> bool:
    return (
        (not match.vendor or _said(host, folder, "vendor") in match.vendor)
        and (not match.device or _said(host, folder, "device") in match.device)
        and _said(host, folder, "class").startswith(match.device_class)
        and (not match.driver or _target(host, folder / "driver") == match.driver)
    )


def _holds(host: HostFiles, folder: PurePosixPath, match: Match) -> bool:
    return all(says(host, folder, file, wanted) for file, wanted in match.where.items())


def _said(host: HostFiles, folder: PurePosixPath, file: str) -> str:
    try:
        return text(host, folder, file)
    except BrokenInput:
        return ""


def _bus_id(host: HostFiles, folder: PurePosixPath) -> str:
    for place in (folder, folder / "device"):
        found = host.resolve(place)
        for part in reversed(found.parts) if found is not None else ():
            if _BUS_ID.fullmatch(part):
                return part
    return ""


def _target(host: HostFiles, link: PurePosixPath) -> str:
    found = host.resolve(link)
    return found.name if found is not None else ""


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
