"""Conflicts: which victims stand in the way of which devices, and what serving a demand costs at least.

In: a node's view with all victims released, the victims, the demand's query. Out: a lower bound of the weight of every set
of victims with which the demand could be served, given some that go and some that stay. No search is asked.

A victim's weight is divided among the devices that it stands in the way of, as many of them as the demand could take at
once: the cheapest devices then cost no more than any real set (the dual of a covering problem). Weights are multiplied by
`scale`, so that nothing is rounded.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import lcm

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.preemption.victims import NodeVictims, Victim
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.dra.device import DeviceId

HOPELESS = 1 << 160
"""A bound above all weights: no set serves the demand."""


class Conflicts:
    """The conflicts of one node."""

    def __init__(
        self,
        view: NodeView,
        node: NodeVictims,
        query: Query,
        wanted: Mapping[str, int],
        selectors: SelectorLookup,
    ) -> None:
        """`wanted`: resources that the demand's pods request of the node."""
        self._node = node
        self._wanted = wanted
        self._slots = [_slot(view, slot.alternatives, selectors) for slot in query.slots]
        matching, most = 0, 0
        for mask, count in self._slots:
            matching |= mask
            most += count
        if matching & view.shareable:
            most = min(most, 1)
        self._slots.append((matching, most))
        self._against = _against(view, node, matching & view.open)
        most = max(most, 1)
        self.scale = lcm(*range(1, most + 1))
        """What bounds are multiplied by."""
        counts = [0] * len(node.victims)
        for mask in self._against.values():
            for index in bits(mask):
                counts[index] += 1
        self._shares = [
            self.scale * each.weight // min(max(count, 1), most)
            for each, count in zip(node.victims, counts, strict=True)
        ]
        self._bonuses = _bonuses(view, {device: self._cost(mask) for device, mask in self._against.items()})

    @property
    def bonuses(self) -> Mapping[DeviceId, int]:
        """A bonus for each device that some request matches, the higher the less it costs."""
        return self._bonuses

    def with_devices(self, devices: Iterable[int]) -> int:
        """Return the victims that stand in the way of some of these devices, each by itself."""
        found = 0
        for device in devices:
            found |= self._against.get(device, 0)
        return found

    def bound(self, going: int, staying: int) -> int:
        """Return the least weight, times `scale`, of a set with all that go and none that stay; HOPELESS: there is none."""
        node = self._node
        gone = node.closed(going)
        if gone & staying:
            return HOPELESS
        costs = {
            device: self._cost(mask & ~gone) for device, mask in self._against.items() if not mask & staying
        }
        worst = self._bound_of_room(gone, staying)
        for mask, count in self._slots:
            cheapest = sorted(cost for device, cost in costs.items() if mask >> device & 1)[:count]
            if len(cheapest) < count:
                return HOPELESS
            worst = max(worst, sum(cheapest))
        return self.scale * node.weight(going) + worst

    def holds_room(self, released: int) -> bool:
        """Say whether the node has room for the demand's pods without these victims."""
        return all(self._lacks(name, released) <= 0 for name in self._wanted)

    def _cost(self, mask: int) -> int:
        return sum([self._shares[index] for index in bits(mask)])

    def _lacks(self, name: str, released: int) -> int:
        wanted = self._wanted[name]
        if not wanted:
            return 0
        freed = sum([each.freed.get(name, 0) for each in self._node.chosen(released)])
        return wanted - self._node.left.get(name, 0) - freed

    def _bound_of_room(self, gone: int, staying: int) -> int:
        """Return the least weight of further victims that give back what the pods lack, as if they could be divided."""
        worst = 0
        for name in self._wanted:
            lacks = self._lacks(name, gone)
            if lacks <= 0:
                continue
            rows = [
                (self.scale * each.weight, each.freed[name])
                for index, each in enumerate(self._node.victims)
                if not (gone | staying) >> index & 1 and each.freed.get(name, 0) > 0
            ]
            total = 0
            for weight, amount in sorted(rows, key=lambda row: row[0] / row[1]):
                total += weight * min(amount, lacks) // amount
                lacks -= amount
                if lacks <= 0:
                    break
            if lacks > 0:
                return HOPELESS
            worst = max(worst, total)
        return worst


def _slot(view: NodeView, alternatives: Sequence[Alternative], selectors: SelectorLookup) -> tuple[int, int]:
    """Return the devices that may serve a request, and how many of them it takes at least that nobody else has."""
    mask = 0
    counts = []
    for each in alternatives:
        mask |= view.selected(each, selectors)[0] & view.tolerating(each.tolerations)
        counts.append(0 if each.everything or each.admin else each.count)
    least = min(counts)
    return mask, min(least, 1) if mask & view.shareable else least


def _against(view: NodeView, node: NodeVictims, devices: int) -> dict[int, int]:
    """Return which victims have to go before each of the devices is free; all of them are free without any victim."""
    against = dict.fromkeys(bits(devices), 0)
    others: dict[int, list[tuple[int, tuple[tuple[int, int], ...]]]] = {}
    for device in against:
        if device in view.group_of:
            group, local = view.group_of[device]
            others.setdefault(group, []).append((device, view.groups[group].group_type.needs[local]))
    for index, victim in enumerate(node.victims):
        taken: dict[int, dict[int, int]] = {}
        for device in _devices(view, victim):
            if device in against:
                against[device] |= 1 << index
            if device in view.group_of:
                group, local = view.group_of[device]
                amounts = taken.setdefault(group, {})
                for counter, amount in view.groups[group].group_type.needs[local]:
                    amounts[counter] = amounts.get(counter, 0) + amount
                outside = view.groups[group].group_type.outside
                for position in outside[local] if outside else ():
                    amounts[position] = amounts.get(position, 0) + 1
        for group, amounts in taken.items():
            group_type, left = view.groups[group].group_type, view.groups[group].state.left
            after = tuple([amount - amounts.get(counter, 0) for counter, amount in enumerate(left)])
            for device, need in others.get(group, ()):
                if not group_type.admits(after, view.group_of[device][1]) or any(
                    after[counter] < amount for counter, amount in need if amount
                ):
                    against[device] |= 1 << index
    return against


def _devices(view: NodeView, victim: Victim) -> set[int]:
    """Return the devices of this node that a victim has for itself, or whose counters it keeps charged."""
    found: set[int] = set()
    for results in victim.holds.values():
        for result in results:
            index = view.find(result.device)
            # A share of a device as it is published keeps others off only if the device has counters, and these are its own then.
            if index is not None and not result.admin_access and not view.admits(index, result):
                found.add(index)
    return found


def _bonuses(view: NodeView, costs: Mapping[int, int]) -> dict[DeviceId, int]:
    ranks = {cost: rank for rank, cost in enumerate(sorted(set(costs.values()), reverse=True))}
    return {view.id_of(device): ranks[cost] + 1 for device, cost in costs.items()}
