"""The backend of one kind of generic device, as a configuration describes it.

In: a kind. Out: cards with identity, attributes and capacities from the kernel's files, and what a container needs. Whole devices
only: there is nothing to cut.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from apportion.agent.devices import pci
from apportion.agent.devices.generic import sysfs
from apportion.agent.devices.generic.containerfiles import ContainerFiles
from apportion.agent.devices.generic.facts import facts, serial
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.generic.sysfs import FoundDevice
from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.names import CardNames
from apportion.agent.devices.uncut import UncutBackend
from apportion.agent.devices.values import Card, Edits, Health, Location
from apportion.errors import BrokenInput, Lost, Unsupported

_LONGEST_PLACE = 40
"""Characters: a UUID is an attribute of 64 bytes, and begins with the type."""


class GenericBackend(UncutBackend):
    """The devices of one kind on this node."""

    def __init__(self, kind: DeviceKind, root: Path, names: CardNames) -> None:
        """`root` is where the host's /sys and /dev are."""
        super().__init__(f"a {kind.type}")
        self._kind = kind
        self._root = root
        self._host = HostFiles(root)
        self._names = names
        self._cards: dict[str, Card] = {}
        """By name; one that is gone stays, and is lost."""
        self._changed: set[str] = set()
        """Cards whose files say something else by now."""
        self.unnamed: tuple[str, ...] = ()
        """Devices that cannot be told from others, and why; as last seen. They are not published."""

    def devices(self) -> tuple[Card, ...]:
        """Discover the devices, in the order of their names in the kernel; those that were known and are not there now stay (lost)."""
        found: dict[str, Card] = {}
        for number, (uuid, device) in enumerate(self._there().items()):
            name = self._names.name(self._kind.type, uuid, number)
            found[name] = self._card(name, uuid, device)
        self._cards = found | {name: card for name, card in self._cards.items() if name not in found}
        self._changed.clear()
        return tuple(self._cards.values())

    def incomplete(self) -> bool:
        """Say whether there is a device that was not there at the last discovery, or one that says something else by now."""
        known = {card.uuid for card in self._cards.values()}
        return bool(self._changed) or not self._there().keys() <= known

    def edits(self, card: str) -> Edits:
        """Return what a container needs for a device, found by its UUID; the warning says what could not be read of it."""
        uuid = self._cards[card].uuid if card in self._cards else ""
        device = self._there().get(uuid)
        if device is None:
            raise Lost(f"{card}: the node has no {self._kind.type} {uuid} now")
        try:
            found = ContainerFiles(self._host, device, uuid).edits(self._kind)
        except Unsupported as error:
            raise Unsupported(f"{card}: {error}") from None
        except OSError as error:
            raise Lost(f"{card}: its device files cannot be looked at: {error}") from None
        unread = "; ".join(facts(self._host, device, self._kind).unread)
        return replace(found, warning=f"{card}: {unread}" if unread else "")

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the devices that are gone (lost), or whose file does not say that they are well (sick)."""
        there = self._there()
        found: dict[str, Health] = {}
        for name, card in self._cards.items():
            if cards is not None and name not in cards:
                continue
            device = there.get(card.uuid)
            if device is None:
                found[name] = Health.LOST
                continue
            if not self._is_well(device):
                found[name] = Health.SICK
            if self._card(name, card.uuid, device) != card:
                self._changed.add(name)
        return found

    def _is_well(self, device: FoundDevice) -> bool:
        wanted = self._kind.health
        return wanted is None or sysfs.says(self._host, device.folder, wanted.file, wanted.healthy)

    def _there(self) -> dict[str, FoundDevice]:
        """Return the devices of the node now by UUID, in the order of their names."""
        found: dict[str, list[FoundDevice]] = {}
        unnamed: list[str] = []
        devices = sysfs.devices(self._host, self._kind.match)
        on_bus = Counter(device.pci_bus_id for device in devices)
        for device in devices:
            try:
                uuid = self._uuid(device, alone=on_bus[device.pci_bus_id] == 1)
                found.setdefault(uuid, []).append(device)
            except BrokenInput as error:
                unnamed.append(f"{self._kind.type} {device.name} is left out: {error}")
        for uuid, same in found.items():
            if len(same) > 1:
                names = ", ".join(device.name for device in same)
                unnamed.append(f"{self._kind.type} {names} are left out: each of them is {uuid}")
        self.unnamed = tuple(unnamed)
        return {uuid: same[0] for uuid, same in found.items() if len(same) == 1}

    def _uuid(self, device: FoundDevice, *, alone: bool) -> str:
        wanted = self._kind.uuid
        own = _place(device, alone=alone) if wanted is None else serial(self._host, device, wanted)
        return f"{self._kind.type.upper()}-{own}"

    def _card(self, name: str, uuid: str, device: FoundDevice) -> Card:
        said = facts(self._host, device, self._kind)
        bus = device.pci_bus_id
        return Card(
            name=name,
            kind=self._kind.type,
            uuid=uuid,
            location=pci.locate(bus, self._root) if bus else Location("", ""),
            attributes={"identifiedBy": "place" if self._kind.uuid is None else "serial", **said.attributes},
            capacity=said.capacity,
        )


def _place(device: FoundDevice, *, alone: bool) -> str:
    """Return where a device is: its PCI bus id, which lasts longer than the kernel's name, or both for one of several parts."""
    bus = device.pci_bus_id
    text = bus if bus and alone else "/".join(dict.fromkeys(part for part in (bus, device.name) if part))
    return text if len(text) <= _LONGEST_PLACE else hashlib.sha256(text.encode()).hexdigest()[:32]
