"""The RDMA devices of a host, as the kernel shows them in /sys.

In: the root of the host's file system. Out: values. Layout: the kernel's ABI documents sysfs-class-infiniband and
sysfs-class-infiniband_verbs; a number that is not there is None, a text "".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_CLASSES: Final = Path("sys/class")
_ACTIVE: Final = 4
_FUNCTION: Final = re.compile(r"(c\d+)?pf\d+((vf|sf)\d+)?")
"""`phys_port_name` of what stands for a function in switchdev mode (net/devlink/port.c, __devlink_port_phys_port_name_get)."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a device."""

    number: int
    link_layer: str
    """`InfiniBand` or `Ethernet`."""
    active: bool
    gigabits: int | None
    """Per second, as trained now."""


@dataclass(frozen=True, slots=True)
class CharDevice:
    """A device file that the kernel knows."""

    path: str
    major: int | None
    minor: int | None


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One RDMA device: a port or a function of a NIC."""

    name: str
    """`mlx5_0`."""
    pci_bus_id: str
    """"" for devices without PCI (soft RoCE)."""
    guid: str
    """Node GUID; "" when it is not set."""
    model: str
    firmware: str
    ports: tuple[Port, ...]
    interfaces: tuple[str, ...]
    """Network interfaces of the same PCI device, `eth5` before `eth10`; of several those that stand for none of its functions."""
    physical: str
    """PCI bus id of the NIC whose virtual function this is; "" when it is none."""
    files: tuple[CharDevice, ...]
    """Its own in /dev/infiniband: verbs, and management datagrams."""


def names(root: Path) -> tuple[str, ...]:
    """Return the names of all RDMA devices, `mlx5_2` before `mlx5_10`."""
    return tuple(sorted(_entries(root / _CLASSES / "infiniband"), key=_natural))


def namespace_mode(root: Path) -> str:
    """Return `shared` or `exclusive`, as `rdma system` does; "" where the kernel does not say.

    In exclusive mode a network namespace sees its own RDMA devices only.
    """
    mode = _text(root / "sys/module/ib_core/parameters/netns_mode")
    return {"Y": "shared", "N": "exclusive"}.get(mode, "")


def identity(root: Path, name: str) -> RdmaDevice | None:
    """Return which device this is, and its files; what the kernel has to ask its firmware or driver for is left out. None when it is not there."""
    folder = root / _CLASSES / "infiniband" / name
    if not (folder / "ports").is_dir():
        return None
    device = folder / "device"
    return RdmaDevice(
        name=name,
        pci_bus_id=_target(device) if _is_pci(_target(device)) else "",
        guid=_guid(folder),
        model="",
        firmware="",
        ports=(),
        interfaces=(),
        physical=_target(device / "physfn"),
        files=(*_files(root, "infiniband_verbs", name), *_files(root, "infiniband_mad", name, only="umad")),
    )


def read(root: Path, name: str) -> RdmaDevice | None:
    """Describe a device; None when it is not there. It does not return for as long as the firmware or driver hangs."""
    known, folder = identity(root, name), root / _CLASSES / "infiniband" / name
    if known is None:
        return None
    return replace(
        known,
        model=_text(folder / "hca_type"),
        firmware=_text(folder / "fw_ver"),
        ports=ports(root, name),
        interfaces=_interfaces(folder / "device" / "net"),
    )


def _interfaces(folder: Path) -> tuple[str, ...]:
    names = sorted(_entries(folder), key=_natural)
    if len(names) > 1:
        # To read it of one alone would make all wait for a driver that hangs while it changes some interface.
        names = [name for name in names if not _FUNCTION.fullmatch(_text(folder / name / "phys_port_name"))]
    return tuple(names)


def ports(root: Path, name: str) -> tuple[Port, ...]:
    """Return the ports of a device as they are now; none when it is not there."""
    folder = root / _CLASSES / "infiniband" / name / "ports"
    return tuple(
        Port(
            number=int(entry),
            link_layer=_text(folder / entry / "link_layer"),
            active=_number(folder / entry / "state") == _ACTIVE,
            gigabits=_number(folder / entry / "rate"),
        )
        for entry in sorted((entry for entry in _entries(folder) if entry.isdigit()), key=int)
    )


def function_number(root: Path, device: RdmaDevice) -> int | None:
    """Return which of its NIC's virtual functions a device is; None when the NIC does not have it now."""
    links = root / "sys/bus/pci/devices" / device.physical
    found = (entry for entry in _entries(links) if _target(links / entry) == device.pci_bus_id)
    return next((int(entry.removeprefix("virtfn")) for entry in found if entry.startswith("virtfn")), None)


def has_function(root: Path, bus_id: str, number: int) -> bool:
    """Say whether a NIC has this virtual function now."""
    return _target(root / "sys/bus/pci/devices" / bus_id / f"virtfn{number}") != ""


def interfaces_of(root: Path, bus_id: str) -> tuple[str, ...]:
    """Return the names of the network interfaces of a PCI device that the host has, sorted."""
    return tuple(sorted(_entries(root / "sys/bus/pci/devices" / bus_id / "net")))


def connection_manager(root: Path) -> CharDevice | None:
    """Return the file that every program that connects needs; None where the module is not loaded."""
    number = root / _CLASSES / "misc" / "rdma_cm" / "dev"
    return _char("/dev/infiniband/rdma_cm", number) if number.is_file() else None


def _files(root: Path, kind: str, name: str, only: str = "") -> Iterator[CharDevice]:
    folder = root / _CLASSES / kind
    for entry in sorted(_entries(folder), key=_natural):
        # The same folder has issm, which would make the container a subnet manager.
        if entry.startswith(only) and _text(folder / entry / "ibdev") == name:
            yield _char(f"/dev/infiniband/{entry}", folder / entry / "dev")


def _char(path: str, numbers: Path) -> CharDevice:
    found = re.fullmatch(r"(\d+):(\d+)", _text(numbers))
    return CharDevice(path, int(found[1]), int(found[2])) if found else CharDevice(path, None, None)


def _guid(folder: Path) -> str:
    guid = _text(folder / "node_guid")
    return guid if guid.strip("0:") else ""


def _is_pci(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", name) is not None


def _target(link: Path) -> str:
    try:
        return link.readlink().name
    except OSError:
        return ""


def _entries(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(entry.name for entry in folder.iterdir())
    except OSError:
        return ()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    found = re.match(r"\d+", _text(file))
    return int(found[0]) if found else None


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
