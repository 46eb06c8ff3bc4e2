"""Where a PCI device is plugged in, from sysfs.

In: a bus id in any notation, the root of the host's file system. Out: a Location, and whether a vendor's devices are there. Attribute formats: the DRA library's
`deviceattribute` package (pcieRoot is the first part below `devices/` of the link /sys/bus/pci/devices/<bus id>).
"""

import re
from pathlib import Path

from apportion.agent.devices.values import Location
from apportion.errors import BrokenInput

_BUS_ID = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def bus_id(text: str) -> str:
    """Write a bus id the kernel's way: `00000000:9D:00.0` -> `0000:9d:00.0`. Raises BrokenInput for anything else."""
    found = _BUS_ID.fullmatch(text.lower())
    if found is None:
        raise BrokenInput(f"{text!r} is no PCI bus id")
    domain, bus, device, function = found.groups(default="0")
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}"


def locate(device: str, root: Path = Path("/")) -> Location:
    """Return where a device is; without sysfs its root is "" and its NUMA node unknown."""
    own = bus_id(device)
    link = root / "sys" / "bus" / "pci" / "devices" / own
    try:
        parts = link.readlink().parts
    except OSError:
        return Location(own, "")
    return Location(own, next((part for part in parts if _ROOT.fullmatch(part)), ""), _numa_node(link))


def plugged(root: Path, vendor: int, device_class: str) -> bool:
    """Say whether a device of this vendor and base class (`0x03`) may be on the bus: yes, too, when /sys does not tell."""
    try:
        folders = list((root / "sys" / "bus" / "pci" / "devices").iterdir())
    except OSError:
        return True
    return any(
        _text(folder / "vendor") == f"{vendor:#06x}" and _text(folder / "class").startswith(device_class)
        for folder in folders
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _numa_node(folder: Path) -> int | None:
    try:
        node = int((folder / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    # -1: the platform does not report it; 0 would be a guess (KEP-6072).
    return node if node >= 0 else None
