"""What is held on a node: devices in use, counters in use, and so what is open.

In: the node's template, the holdings, their changes. Out: bit masks over the node's devices, and the counter groups with their
occupancies now.
"""

from collections.abc import Iterable, Mapping

from apportion.allocator.facts.holdings import Change, Consumption, ConsumptionOf, DeviceHolding, Holdings
from apportion.allocator.node.countergroup import CounterGroup
from apportion.allocator.node.template import NodeTemplate
from apportion.dra.device import DeviceId
from apportion.dra.slice import PoolId

_NOBODY: Mapping[str, int] = {}
_NO_SHARES: Mapping[int, Mapping[str, int]] = {}


class NodeOccupancy:
    """One node's devices by what is left of them."""

    __slots__ = (
        "_indexes_by_name",
        "base",
        "charged",
        "exclusive",
        "fit",
        "groups",
        "limited",
        "open",
        "plain",
        "shareable",
        "template",
        "used",
    )

    def __init__(self, template: NodeTemplate, indexes_by_name: Mapping[PoolId, Mapping[str, int]]) -> None:
        self.template = template
        self._indexes_by_name = indexes_by_name
        self.base = template.base
        """Devices that may be used at all on this node."""
        self.shareable = template.shareable
        self.limited = template.limited
        """Devices whose capacity decides even when a request names none: shareable ones, and those with a policy."""
        self.plain = template.plain
        """Devices without counters."""
        self.groups = [CounterGroup(cast) for cast in template.groups]
        self.exclusive = 0
        """Devices held as a whole."""
        self.charged = 0
        """Shareable devices that have paid for their counters already."""
        self.used: Mapping[int, Mapping[str, int]] = _NO_SHARES
        """Capacity in use by shares, by device."""
        self.fit = 0
        """Devices for which the counters suffice."""
        self.open = 0
        """Of those: not held."""

    def find(self, device: DeviceId) -> int | None:
        """Return the position of a device that may be used here."""
        index_by_name = self._indexes_by_name.get(PoolId(device.driver, device.pool))
        return index_by_name.get(device.name) if index_by_name is not None else None

    def consumption(self, pool: PoolId, otherwise: ConsumptionOf) -> ConsumptionOf:
        """Return what says what a device takes from counters. `otherwise`: asked for those that may not be used here."""
        index_by_name = self._indexes_by_name.get(pool)
        if index_by_name is None:
            return otherwise
        taken = self.template.taken

        def here(name: str) -> Consumption | None:
            index = index_by_name.get(name)
            return otherwise(name) if index is None else taken[index]

        return here

    @property
    def holdings(self) -> tuple[object, ...]:
        """Return all that a search reads of what is held: equal on nodes of one kind means equal answers."""
        states = tuple([group.state for group in self.groups])
        if not self.charged:
            return self.exclusive, states
        shares = tuple((index, tuple(sorted(used.items()))) for index, used in sorted(self.used.items()))
        return self.exclusive, states, self.charged, shares

    def pools_of(self, mask: int) -> int:
        """Return every device of the pools that the mask touches."""
        return sum(devices for devices in self.template.pool_masks if devices & mask) & self.base

    def refresh(self, holdings: Holdings) -> None:
        """Take over what is held now."""
        self.exclusive = self.charged = 0
        used: dict[int, Mapping[str, int]] = {}
        for pool, index_by_name in self._indexes_by_name.items():
            for name, holding in holdings.held(pool).items():
                index = index_by_name.get(name)
                if index is not None:
                    self._occupy(index, holding, used)
        self.used = used or _NO_SHARES
        left: dict[int, list[int]] = {}
        counter_of = self.template.counter_of
        for number, pool in enumerate(self._indexes_by_name):
            for counter, amount in holdings.counters(pool).items():
                place = counter_of.get((number, counter))
                if amount and place is not None:
                    left.setdefault(place[0], list(self.groups[place[0]].totals))[place[1]] -= amount
        fit = self.plain
        for number, group in enumerate(self.groups):
            state = group.group_type.state(tuple(left[number])) if number in left else group.fresh
            group.enter(group.group_type.occupancy(state, group.gather(self.exclusive)))
            fit |= group.spread(state.fits)
        self.fit = fit | self.charged
        self.open = self.fit & ~self.exclusive

    def follow(self, changes: Iterable[Change], holdings: Holdings) -> bool:
        """Take over what is held now of a few devices; False where only `refresh` can tell."""
        if self.shareable:
            return False
        exclusive, fit = self.exclusive, self.fit
        groups, group_of = self.groups, self.template.group_of
        last: PoolId | None = None
        index_by_name: Mapping[str, int] = {}
        held: Mapping[str, DeviceHolding] = {}
        for pool, name, taken, sign in changes:
            if pool is not last:
                last = pool
                index_by_name = self._indexes_by_name.get(pool, _NOBODY)
                held = holdings.held(pool)
            index = index_by_name.get(name)
            if index is None:
                # What is published no longer may still draw from the counters.
                if sign and taken:
                    return False
                continue
            busy = name in held
            if busy:
                exclusive |= 1 << index
            else:
                exclusive &= ~(1 << index)
            if not group_of:
                continue
            place = group_of.get(index)
            if not sign or not taken:
                if place is not None:
                    group = groups[place[0]]
                    group.enter(group.occupancy.mark(place[1], busy=busy))
                continue
            if place is None or taken is not self.template.taken[index]:
                # Published differently since it was taken.
                return False
            group = groups[place[0]]
            group.enter(group.occupancy.take(place[1]) if sign > 0 else group.occupancy.give(place[1]))
            fit = fit & ~group.mask | group.spread(group.state.fits)
        self.exclusive, self.fit = exclusive, fit
        self.open = fit & ~exclusive
        return True

    def _occupy(self, index: int, holding: DeviceHolding, used: dict[int, Mapping[str, int]]) -> None:
        if holding.exclusive or not self.shareable >> index & 1:
            # A device that is no longer shareable stays with its sharers.
            self.exclusive |= 1 << index
        else:
            self.charged |= 1 << index
            used[index] = holding.capacity
