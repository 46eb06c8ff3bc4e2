"""The RDMA backend: NICs that a container can use through its own device files.

In: nothing. Out: cards with their location and health. Whole devices only: there is nothing to cut. NICs without RDMA
are left out: a container gets nothing from them through a device file, and the node itself uses them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from apportion.agent.devices import pci
from apportion.agent.devices.rdma import sysfs
from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.devices.rdma.sysfs import Port, RdmaDevice
from apportion.agent.devices.uncut import UncutBackend
from apportion.agent.devices.values import (
    VIRTUAL_FUNCTIONS,
    Card,
    CardKind,
    DeviceNode,
    Edits,
    Health,
    Location,
)
from apportion.api.contract import VIRTUAL_FUNCTION
from apportion.dra.device import Scalar
from apportion.errors import Lost

Read = Callable[[Path, str], RdmaDevice | None]
"""Returns a device by the root of the host's file system and its name."""
_LONGEST_TEXT = 64
"""Bytes of a string attribute (API `DeviceAttributeMaxValueLength`)."""


class RdmaBackend(UncutBackend):
    """The RDMA devices of this node."""

    def __init__(self, root: Path = Path("/"), away: AwayFolder | None = None) -> None:
        """`root` is where the host's /sys and /dev are; `away` has the devices whose interface is in a pod."""
        super().__init__("an RDMA device")
        self._root = root
        self._away = away
        self._cards: dict[str, Card] = {}

    def present(self) -> bool:
        """Say whether the node has RDMA devices; as `devices`, it does not return while one hangs."""
        return bool(self._there(sysfs.read))

    def devices(self) -> tuple[Card, ...]:
        """Discover the devices, in the order of their names; those that were known and are not there now stay (lost).

        One that has another UUID now, or says something else of itself, has that in its card from here on.
        """
        there = self._there(sysfs.read)
        new = [self._card(device, uuid) for uuid, device in self._new(there).items()]
        self._cards = _with_functions(self._cards | {card.name: self._known(card) for card in new})
        return tuple(self._cards.values())

    def incomplete(self) -> bool:
        """Say whether the kernel shows a device that was not there at the last discovery, or that says something else by now.

        A driver may be loaded later than the agent, an interface be named later than its driver is loaded, and a link come up later still.
        """
        return bool(self._new(self._there(sysfs.read)))

    def edits(self, card: str) -> Edits:
        """Return the device files of a NIC, found by its UUID: a reload of its driver gives names and numbers anew."""
        known = self._cards.get(card)
        device = _found(known, self._there()) if known is not None else None
        if device is None:
            raise Lost(f"{card}: the node has no RDMA device {known.uuid if known is not None else ''} now")
        manager = sysfs.connection_manager(self._root)
        files = (*device.files, *((manager,) if manager is not None else ()))
        return Edits(nodes=tuple(DeviceNode(file.path, "", file.major, file.minor) for file in files))

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the devices that are gone (lost) or have no active port (sick)."""
        found: dict[str, Health] = {}
        there = self._there()
        for card in self._cards.values():
            if cards is not None and card.name not in cards:
                continue
            device = _found(card, there)
            # What is away is as it was written down.
            ports = (device.ports or sysfs.ports(self._root, device.name)) if device is not None else ()
            if not ports:
                found[card.name] = Health.LOST
            elif not _linked(ports):
                found[card.name] = Health.SICK
        return found

    def _new(self, there: Mapping[str, RdmaDevice]) -> dict[str, RdmaDevice]:
        """Return the devices of which no card has the UUID, and those of which the card says something else.

        A name that the kernel has given to another device by now stays with the first until the agent starts anew. A device without a link is
        the one that it was, because it does not say its rate.
        """
        known = {card.uuid for card in self._cards.values()}
        found: dict[str, RdmaDevice] = {}
        for uuid, device in there.items():
            card = self._cards.get(_card_name(device))
            if uuid in known:
                said = card.attributes if card is not None and card.uuid == uuid else _attributes(device)
                new = _linked(device.ports) and said != _attributes(device)
            else:
                new = card is None or _found(card, there) is device
            if new:
                found[uuid] = device
        return found

    def _known(self, card: Card) -> Card:
        """Return a card with the UUID that it had before."""
        before = self._cards.get(card.name, card)
        return replace(card, former_uuid=before.former_uuid if before.uuid == card.uuid else before.uuid)

    def _there(self, read: Read = sysfs.identity) -> dict[str, RdmaDevice]:
        """Return the devices of the node now by UUID, in the order of their names; a device that hangs keeps who reads more than identities."""
        found = [read(self._root, name) for name in sysfs.names(self._root)]
        there = self._with_those_away([device for device in found if device is not None])
        # Functions of one NIC may have its GUID. The NIC keeps it: it was there, and in use, before they were made.
        guids, nics = (
            Counter(device.guid for device in there if every or not device.physical)
            for every in (True, False)
        )
        alone = {device.name for device in there if (guids if device.physical else nics)[device.guid] == 1}
        return {
            f"NIC-{(device.guid if device.name in alone else '') or device.pci_bus_id or device.name}": device
            for device in there
        }

    def _with_those_away(self, shown: Sequence[RdmaDevice]) -> list[RdmaDevice]:
        """Add what /sys does not show while an interface is in a pod: the interface, or the device with it.

        In switchdev mode it shows what stands for the device's functions all the while.
        Which of both depends on `rdma system`: in exclusive mode a device is shown in its own network namespace only.
        """
        away = {device.name: device for device in (self._away.devices() if self._away else ())}
        there = [
            replace(device, interfaces=away[device.name].interfaces)
            if device.name in away and away[device.name].pci_bus_id == device.pci_bus_id
            else device
            for device in shown
        ]
        names = {device.name for device in there}
        buses = {device.pci_bus_id for device in there}
        there += [
            device
            for device in away.values()
            if device.name not in names and device.pci_bus_id not in buses and self._plugged(device)
        ]
        return there

    def _plugged(self, device: RdmaDevice) -> bool:
        return (self._root / "sys/bus/pci/devices" / device.pci_bus_id).exists()

    def _card(self, device: RdmaDevice, uuid: str) -> Card:
        bus = device.pci_bus_id
        # By its bus id before it had a GUID, or one of its own: an agent of before may have seen it then.
        former = f"NIC-{bus}" if bus else ""
        return Card(
            name=_card_name(device),
            kind=CardKind.NIC,
            uuid=uuid,
            location=pci.locate(bus, self._root) if bus else Location("", ""),
            attributes=_attributes(device),
            former_uuid=former if former != uuid else "",
        )


def _found(card: Card, there: Mapping[str, RdmaDevice]) -> RdmaDevice | None:
    """Return the device of a card, None when it is not there.

    Its UUID may have changed where that is no property of the hardware: a virtual function has the GUID that it is given (ip-link(8),
    `node_guid`), and what had none of its own was known by its bus id. It is the same then by bus id and name.
    """
    bus = card.location.pci_bus_id
    if card.uuid in there or not bus:
        return there.get(card.uuid)
    same = (each for each in there.values() if (each.pci_bus_id, _card_name(each)) == (bus, card.name))
    return next((each for each in same if each.physical or card.uuid == f"NIC-{bus}"), None)


def _with_functions(cards: Mapping[str, Card]) -> dict[str, Card]:
    """Return the cards with what virtual functions and their NICs share: who has the NIC has them all.

    Functions that are no RDMA devices cannot be claimed, and count for nobody.
    """
    by_bus = {card.location.pci_bus_id: card.name for card in cards.values() if card.location.pci_bus_id}
    nics = {
        card.name: by_bus.get(str(card.attributes.get("physicalFunction", "")), "") for card in cards.values()
    }
    functions = Counter(nics.values())
    return {
        name: replace(
            card,
            part_of=nics[name],
            takes={VIRTUAL_FUNCTIONS: 1} if nics[name] else {},
            totals={VIRTUAL_FUNCTIONS: functions[name]} if functions[name] else {},
        )
        for name, card in cards.items()
    }


def _linked(ports: Iterable[Port]) -> bool:
    return any(port.active for port in ports)


def _attributes(device: RdmaDevice) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {"rdma": True, "rdmaDevice": device.name}
    if device.ports:
        found["linkType"] = device.ports[0].link_layer.lower()
    rates = [port.gigabits for port in device.ports if port.gigabits is not None]
    if rates:
        found["gigabitsPerSecond"] = max(rates)
    texts = {
        "model": device.model,
        "firmwareVersion": device.firmware,
        "interface": device.interfaces[0] if device.interfaces else "",
        "physicalFunction": device.physical,
    }
    found |= {name: text for name, text in texts.items() if text and len(text.encode()) <= _LONGEST_TEXT}
    found[VIRTUAL_FUNCTION] = bool(device.physical)
    return found


def _card_name(device: RdmaDevice) -> str:
    return "nic-" + "".join(sign if sign.isalnum() else "-" for sign in device.name.lower()).strip("-")
