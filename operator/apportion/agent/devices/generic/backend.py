"""The backend of one kind of generic device, as a configuration describes it.

In: a kind. Out: cards with identity, attributes and capacities from the kernel's files, and what a container needs. Nothing is
cut: a part of a card that is given away by itself exists by itself, and is a card that takes its part of the other's counters.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from apportion.agent.devices import pci
from apportion.agent.devices.generic import sysfs
from apportion.agent.devices.generic.containerfiles import ContainerFiles
from apportion.agent.devices.generic.facts import facts
from apportion.agent.devices.generic.fields import PARTS, counter
from apportion.agent.devices.generic.identity import Identified, identified
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.names import CardNames
from apportion.agent.devices.uncut import UncutBackend
from apportion.agent.devices.values import Card, CounterAmounts, Edits, Health, Location
from apportion.dra.device import Scalar
from apportion.errors import Lost, Unsupported


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
        self._nameless: tuple[str, ...] = ()
        """Those of the last discovery that found all cards."""

    def devices(self) -> tuple[Card, ...]:
        """Discover the devices, in the order of their names in the kernel; those that were known and are not there now stay (lost)."""
        there = self._there()
        if there.keys() >= {card.uuid for card in self._cards.values()}:
            self._nameless = self.unnamed
        numbers: Counter[str] = Counter()
        names: dict[str, str] = {}
        for uuid, each in there.items():
            stem = f"{names[each.card]}-{each.type}" if each.card else each.type
            names[uuid] = self._names.name(stem, uuid, numbers[stem])
            numbers[stem] += 1
        found = {name: self._card(name, there[uuid], there, names) for uuid, name in names.items()}
        self._cards = found | {name: card for name, card in self._cards.items() if name not in found}
        self._changed.clear()
        return tuple(self._cards.values())

    def incomplete(self) -> bool:
        """Say whether there is a device that was not there at the last discovery, or one that says something else by now."""
        known = {card.uuid for card in self._cards.values()}
        return bool(self._changed) or not self._there().keys() <= known

    def edits(self, card: str) -> Edits:
        """Return what a container needs for a device, found by its UUID; the warning says what could not be read of it."""
        known = self._cards.get(card)
        there = self._there().get(known.uuid) if known is not None else None
        if known is None or there is None:
            what = f"{known.type} {known.uuid}" if known is not None else f"{self._kind.type} of this name"
            raise Lost(f"{card}: the node has no {what} now")
        try:
            found = ContainerFiles(self._host, there.device, there.uuid).edits(there.kind)
        except Unsupported as error:
            raise Unsupported(f"{card}: {error}") from None
        except OSError as error:
            raise Lost(f"{card}: its device files cannot be looked at: {error}") from None
        unread = "; ".join(facts(self._host, there.device, there.kind).unread)
        return replace(found, warning=f"{card}: {unread}" if unread else "")

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the devices that are gone (lost), or whose file, or their card's, does not say that they are well (sick).

        While some device cannot be told from others that could before, one that is gone may be that (sick).
        """
        there = self._there()
        gone = Health.SICK if {*self.unnamed} - {*self._nameless} else Health.LOST
        names = {card.uuid: card.name for card in self._cards.values()}
        found: dict[str, Health] = {}
        for name, card in self._cards.items():
            if cards is not None and name not in cards:
                continue
            each = there.get(card.uuid)
            if each is None:
                found[name] = gone
                continue
            if not all(self._is_well(one) for one in (each, *(there[uuid] for uuid in (each.card,) if uuid))):
                found[name] = Health.SICK
            if self._card(name, each, there, names) != card:
                self._changed.add(name)
        return found

    def _is_well(self, each: Identified) -> bool:
        wanted = each.kind.health
        return wanted is None or sysfs.says(self._host, each.device.folder, wanted.file, wanted.healthy)

    def _there(self) -> dict[str, Identified]:
        """Return the devices of the node now by UUID, in the order of their names."""
        there, self.unnamed = identified(self._host, self._kind)
        return there

    def _card(
        self, name: str, each: Identified, there: Mapping[str, Identified], names: Mapping[str, str]
    ) -> Card:
        """Return a device as its files are now; `names` are by UUID."""
        said = facts(self._host, each.device, each.kind)
        bus = each.device.pci_bus_id
        takes = each.takes or {}
        # What is gone may be somebody's: it takes what it took.
        gone = [
            card.takes for card in self._cards.values() if card.part_of == name and card.uuid not in there
        ]
        parts = [*gone, *(_taken(part) for part in there.values() if part.card == each.uuid)]
        own: dict[str, Scalar] = (
            {"parentUUID": each.card}
            if each.card
            else {"identifiedBy": "place" if self._kind.uuid is None else "serial"}
        )
        return Card(
            name=name,
            kind=self._kind.type,
            type=each.type,
            uuid=each.uuid,
            location=pci.locate(bus, self._root) if bus else Location("", ""),
            attributes={**own, **said.attributes},
            capacity={**takes, **said.capacity},
            totals=self._totals(said.capacity, parts) if parts else {},
            part_of=names[each.card] if each.card else "",
            takes=_taken(each) if each.card else {},
        )

    def _totals(self, capacity: CounterAmounts, parts: Collection[CounterAmounts]) -> CounterAmounts:
        """Return what these parts of a card share; of an amount that cannot be read there is none to share."""
        shared = {counter(name): capacity.get(name, 0) for part in self._kind.parts for name in part.takes}
        wanted = {name for takes in parts for name in takes}
        return {PARTS: len(parts), **{name: value for name, value in shared.items() if name in wanted}}


def _taken(part: Identified) -> CounterAmounts:
    """Return what a part takes of its card's counters."""
    return {PARTS: 1, **{counter(name): value for name, value in (part.takes or {}).items()}}
