"""Which devices of a kind are there, each by the UUID that tells it from all others: cards, and the parts of cards.

In: the host's files, a kind. Out: devices by UUID, in the order of their names, each card before its parts; and why others are left out.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apportion.agent.devices.generic import sysfs
from apportion.agent.devices.generic.described import Described
from apportion.agent.devices.generic.facts import serial
from apportion.agent.devices.generic.fields import LONGEST_TEXT
from apportion.agent.devices.generic.kind import DeviceKind, PartKind
from apportion.agent.devices.generic.sysfs import FoundDevice
from apportion.agent.devices.hostfs import HostFiles
from apportion.errors import BrokenInput

_LONGEST_PLACE = 40
"""Characters: a UUID is an attribute of 64 bytes, and begins with the type."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A card, or a part of one, that is there."""

    uuid: str
    type: str
    device: FoundDevice
    kind: Described
    card: str = ""
    """UUID of the card that it is a part of; "" for a card."""
    takes: Mapping[str, int] | None = None
    """What a part takes of its card's capacities."""


def identified(host: HostFiles, kind: DeviceKind) -> tuple[dict[str, Identified], tuple[str, ...]]:
    """Return what is there by UUID; of devices that cannot be told from others, why they are left out."""
    found: dict[str, list[Identified]] = {}
    left_out: list[str] = []
    devices = sysfs.devices(host, kind.match)
    on_bus = Counter(device.pci_bus_id for device in devices)
    for device in devices:
        try:
            alone = on_bus[device.pci_bus_id] == 1
            own = _place(device, alone=alone) if kind.uuid is None else serial(host, device, kind.uuid)
        except BrokenInput as error:
            left_out.append(f"{kind.type} {device.name} is left out: {error}")
            continue
        card = Identified(f"{kind.type.upper()}-{own}", kind.type, device, kind)
        for each in (card, *_parts(host, card, kind)):
            found.setdefault(each.uuid, []).append(each)
    for uuid, same in found.items():
        if len(same) > 1:
            names = ", ".join(each.device.name for each in same)
            left_out.append(f"{same[0].type} {names} are left out: each of them is {uuid}")
    doubtful = {uuid for uuid, same in found.items() if len(same) > 1}
    there = {uuid: same[0] for uuid, same in found.items() if not {uuid, same[0].card} & doubtful}
    return there, tuple(left_out)


def _parts(host: HostFiles, card: Identified, kind: DeviceKind) -> Iterator[Identified]:
    for part in kind.parts:
        for device in sysfs.parts(host, card.device, part):
            yield Identified(_uuid(card, part, device), part.type, device, part, card.uuid, part.takes)


def _uuid(card: Identified, part: PartKind, device: FoundDevice) -> str:
    text = f"{card.uuid}/{part.type}/{device.name}"
    return text if len(text.encode()) <= LONGEST_TEXT else f"{card.type.upper()}-{_short(text)}"


def _place(device: FoundDevice, *, alone: bool) -> str:
    """Return where a device is: its PCI bus id, which lasts longer than the kernel's name, or both for one of several parts."""
    bus = device.pci_bus_id
    text = bus if bus and alone else "/".join(dict.fromkeys(part for part in (bus, device.name) if part))
    return text if len(text) <= _LONGEST_PLACE else _short(text)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
