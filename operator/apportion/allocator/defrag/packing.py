"""Packing: devices, counters and room of nodes as amounts, and every place that something can have as what it takes of them.

In: a state, what may move, demands. Out: integers. What takes place is decided by sums alone, so the search tries thousands of places in the time of one question
to the allocator; each plan is replayed there afterwards. Devices that several claims share are places for nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from apportion.allocator.allocate import decide
from apportion.allocator.bits import bits
from apportion.allocator.defrag.cards import Card
from apportion.allocator.defrag.moves import Movable, Resources
from apportion.allocator.demand import Demand
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId

Charge: TypeAlias = dict[int, int]
"""Amounts by number of what is charged."""
MOST_CHOICES = 24
"""Places of several devices that are looked at on one node."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something could be."""

    node: str
    devices: tuple[DeviceId, ...]
    charge: Charge
    """What it takes there."""
    on_node: Charge = field(default_factory=dict)
    """What its pods take of the node, beside devices."""


class Packing:
    """A cluster as amounts."""

    def __init__(self, state: State, room: Mapping[str, Resources]) -> None:
        self._state = state
        self._room = room
        self._numbers: dict[object, int] = {}
        self.left: list[int] = []
        """What is left of each."""
        self.complete = True
        """Whether no place was left out."""

    def now(self, movable: Movable) -> Place | None:
        """Return where something is; None where it has a share of a device, or one that is not published any more."""
        charge = self._charge(movable.node, [r for results in movable.holds.values() for r in results])
        if charge is None:
            return None
        return Place(movable.node, movable.devices, charge, self._on_node(movable.node, movable.requests))

    def whole(self, card: Card) -> Place:
        """Return the place that takes all of a card."""
        view = self._state.view(card.node)
        group = view.groups[card.group]
        charge = {
            self._counter(view, card.group, counter): total
            for counter, total in enumerate(group.totals)
            if total
        }
        charge |= {self._device(view, member): 1 for member in group.members}
        return Place(card.node, (card.device,), charge)

    def places(self, demand: Demand, requests: Resources) -> Iterator[Place]:
        """Yield all places of a demand, also those that something that may move has now; what cannot move is in nobody's place."""
        state = self._state
        query = state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
        state.settle(query)
        names = state.names() if demand.nodes is None else demand.nodes & state.names().keys()
        for name in sorted(names):
            on_node = self._on_node(name, requests)
            for devices, charge in self._choices(name, demand, query):
                yield Place(name, devices, charge, on_node)

    def _choices(
        self, name: str, demand: Demand, query: Query
    ) -> Iterator[tuple[tuple[DeviceId, ...], Charge]]:
        view = self._state.view(name)
        if len(query.slots) == 1 and query.counted and all(each.count == 1 for each in query.alternatives):
            mask = 0
            for each in query.alternatives:
                mask |= view.selected(each, self._state.selectors)[0] & view.tolerating(each.tolerations)
            for index in bits(mask & view.open & ~view.shareable):
                device = view.id_of(index)
                if device not in demand.excluded:
                    yield (device,), self._charge_of(view, [index])
            return
        for devices in self._several(name, demand):
            charge = self._charge(name, [DeviceResult("", device) for device in devices])
            if charge is not None:
                yield devices, charge

    def _several(self, name: str, demand: Demand) -> Iterator[tuple[DeviceId, ...]]:
        """Yield choices of several devices: every other one lacks a device of one that is known."""
        asked, seen, found = [frozenset[DeviceId]()], {frozenset[DeviceId]()}, set[frozenset[DeviceId]]()
        while asked:
            without = asked.pop()
            if len(found) >= MOST_CHOICES or len(seen) > 8 * MOST_CHOICES:
                self.complete = False
                return
            here = replace(demand, nodes=frozenset({name}), host=None, excluded=demand.excluded | without)
            decision = decide(self._state, here, Terms())
            if decision is None:
                continue
            results = [result for each in decision.allocations for result in each.results]
            devices = tuple(result.device for result in results)
            if frozenset(devices) not in found:
                found.add(frozenset(devices))
                yield devices
            for device in devices:
                more = without | {device}
                if more not in seen:
                    seen.add(more)
                    asked.append(more)

    def _charge(self, node: str, results: Sequence[DeviceResult]) -> Charge | None:
        view = self._state.view(node)
        found = []
        for result in results:
            if result.admin_access:
                continue
            index = view.find(result.device)
            if index is None or result.share_id is not None or view.shareable >> index & 1:
                return None
            found.append(index)
        return self._charge_of(view, found)

    def _charge_of(self, view: NodeView, devices: Sequence[int]) -> Charge:
        charge: Charge = {}
        for index in devices:
            charge[self._device(view, index)] = 1
            if index in view.group_of:
                number, local = view.group_of[index]
                for counter, amount in view.groups[number].group_type.needs[local]:
                    at = self._counter(view, number, counter)
                    charge[at] = charge.get(at, 0) + amount
        return charge

    def _on_node(self, node: str, requests: Resources) -> Charge:
        left = self._room.get(node)
        if left is None:
            return {}
        return {
            self._number((node, name), left.get(name, 0)): amount
            for name, amount in requests.items()
            if amount
        }

    def _device(self, view: NodeView, index: int) -> int:
        # By the device, because a pool may be one of several nodes.
        return self._number(view.id_of(index), 0 if view.exclusive >> index & 1 else 1)

    def _counter(self, view: NodeView, group: int, counter: int) -> int:
        found = view.groups[group]
        return self._number((view.id_of(found.members[0]), counter), found.state.left[counter])

    def _number(self, what: object, left: int) -> int:
        found = self._numbers.get(what)
        if found is None:
            found = self._numbers[what] = len(self.left)
            self.left.append(left)
        return found
