"""NodeOccupancy: the devices and counters in use on a node, and the devices that are free.

In: the node's template, the holdings and their changes. Out: bit masks over the node's devices, and the counter groups with
their current occupancies.
"""

from collections.abc import Iterable, Mapping, Sequence

from apportion.allocator.facts.holdings import Change, ConsumptionOf, DeviceHolding, Holdings
from apportion.allocator.node.countergroup import CounterGroup
from apportion.allocator.node.template import NodeTemplate
from apportion.allocator.rules.capacity import differing
from apportion.dra.allocation import DeviceResult
from apportion.dra.consumedcounters import CounterAmounts, groups_by_set
from apportion.dra.device import Device, DeviceId
from apportion.dra.slice import PoolId

_NO_DEVICES: Mapping[str, int] = {}
_NO_SHARES: Mapping[int, Mapping[str, int]] = {}
_NO_NAMES: Mapping[int, str] = {}


class NodeOccupancy:
    """One node's devices: held, charged, with sufficient counters, free."""

    __slots__ = (
        "_indexes_by_name",
        "base",
        "charged",
        "devices",
        "differing",
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

    def __init__(
        self,
        template: NodeTemplate,
        devices: Sequence[Device],
        indexes_by_name: Mapping[PoolId, Mapping[str, int]],
    ) -> None:
        self.template = template
        self.devices = devices
        self._indexes_by_name = indexes_by_name
        self.base = template.base
        """Devices that may be allocated on this node."""
        self.shareable = template.shareable
        self.limited = template.limited
        """Devices whose capacity is checked even for requests that name none: shareable ones, and those with a request policy."""
        self.plain = template.plain
        """Devices without counters."""
        self.groups = [CounterGroup(group) for group in template.groups]
        self.exclusive = 0
        """Devices held as a whole: by one claim, or by shares of a device that its driver publishes otherwise now."""
        self.differing: Mapping[int, str] = _NO_NAMES
        """By device that is held as a whole for its capacities: the one by which shares and device differ."""
        self.charged = 0
        """Shareable devices whose counters are charged, by their first share."""
        self.used: Mapping[int, Mapping[str, int]] = _NO_SHARES
        """Capacity in use by shares: amounts in 10^-9 by name, by device."""
        self.fit = 0
        """Devices for which the counters suffice, or that are charged already."""
        self.open = 0
        """Devices of `fit` that are not held as a whole."""

    def find(self, device: DeviceId) -> int | None:
        """Return the position of a device; None if it is not on this node."""
        index_by_name = self._indexes_by_name.get(PoolId(device.driver, device.pool))
        return index_by_name.get(device.name) if index_by_name is not None else None

    def consumption(self, pool: PoolId, otherwise: ConsumptionOf) -> ConsumptionOf:
        """Return the consumption of the pool's devices by name. `otherwise`: called for devices that are not on this node."""
        index_by_name = self._indexes_by_name.get(pool)
        if index_by_name is None:
            return otherwise
        taken = self.template.taken

        def local(name: str) -> CounterAmounts | None:
            index = index_by_name.get(name)
            return otherwise(name) if index is None else taken[index]

        return local

    @property
    def holdings(self) -> tuple[object, ...]:
        """Everything that a search reads of the holdings: nodes of one class with equal values have equal outcomes."""
        states = tuple([group.state for group in self.groups])
        if not self.charged:
            return self.exclusive, states
        shares = tuple((index, tuple(sorted(used.items()))) for index, used in sorted(self.used.items()))
        return self.exclusive, states, self.charged, shares

    def pools_of(self, mask: int) -> int:
        """Return all devices of the pools of the devices in the mask."""
        return sum(devices for devices in self.template.pool_masks if devices & mask) & self.base

    def refresh(self, holdings: Holdings) -> None:
        """Compute everything from the holdings."""
        self.exclusive = self.charged = 0
        self.differing = _NO_NAMES
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
                member = counter_of.get((number, counter))
                if amount and member is not None:
                    left.setdefault(member[0], list(self.groups[member[0]].totals))[member[1]] -= amount
            if self.template.compatible:
                self._group(number, holdings.held(pool).values(), left)
        fit = self.plain
        for number, group in enumerate(self.groups):
            state = group.group_type.state(tuple(left[number])) if number in left else group.fresh
            group.enter(group.group_type.occupancy(state, group.gather(self.exclusive)))
            fit |= group.spread(state.fits)
        self.fit = fit | self.charged
        self.open = self.fit & ~self.exclusive

    def _group(self, pool: int, held: Iterable[DeviceHolding], left: dict[int, list[int]]) -> None:
        """Charge the compatibility groups that devices in use are not of."""
        for holding in held:
            for counter_set, own in groups_by_set(holding.consumption or {}).items():
                number, positions = self.template.compatible.get((pool, counter_set), (0, {}))
                for name, position in positions.items():
                    if name not in own:
                        left.setdefault(number, list(self.groups[number].totals))[position] -= 1

    def follow(self, changes: Iterable[Change], holdings: Holdings) -> bool:
        """Apply changes of a few devices; False where only `refresh` can compute the result."""
        if self.shareable:
            return self._follow_shares(changes, holdings)
        exclusive, fit = self.exclusive, self.fit
        groups, group_of = self.groups, self.template.group_of
        last: PoolId | None = None
        index_by_name: Mapping[str, int] = {}
        held: Mapping[str, DeviceHolding] = {}
        for pool, name, taken, sign in changes:
            if pool is not last:
                last = pool
                index_by_name = self._indexes_by_name.get(pool, _NO_DEVICES)
                held = holdings.held(pool)
            index = index_by_name.get(name)
            if index is None:
                # A device that is no longer published may still consume counters.
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
            member = group_of.get(index)
            if not sign or not taken:
                if member is not None:
                    group = groups[member[0]]
                    group.enter(group.occupancy.mark(member[1], busy=busy))
                continue
            if member is None or taken is not self.template.taken[index]:
                # The driver has changed the device since it was taken.
                return False
            group = groups[member[0]]
            group.enter(group.occupancy.take(member[1]) if sign > 0 else group.occupancy.give(member[1]))
            fit = fit & ~group.mask | group.spread(group.state.fits)
        self.exclusive, self.fit = exclusive, fit
        self.open = fit & ~exclusive
        return True

    def _follow_shares(self, changes: Iterable[Change], holdings: Holdings) -> bool:
        """Do the same on a node with devices to share, if no device has counters."""
        if self.groups:
            return False
        used = dict(self.used)
        for pool, name, taken, sign in changes:
            index = self._indexes_by_name.get(pool, _NO_DEVICES).get(name)
            if index is None:
                if sign and taken:
                    return False
                continue
            self.exclusive &= ~(1 << index)
            self.charged &= ~(1 << index)
            used.pop(index, None)
            if index in self.differing:
                self.differing = {other: name for other, name in self.differing.items() if other != index}
            holding = holdings.held(pool).get(name)
            if holding is not None:
                self._occupy(index, holding, used)
        # Another object: readers recognise the change by it.
        self.used = used or _NO_SHARES
        self.open = self.fit & ~self.exclusive
        return True

    def admits(self, index: int, result: DeviceResult) -> bool:
        """Say whether who holds the device so leaves room for the shares of others."""
        if result.share_id is None or not self.shareable >> index & 1:
            return False
        return differing((result.consumed,), self.devices[index]) is None

    def _occupy(self, index: int, holding: DeviceHolding, used: dict[int, Mapping[str, int]]) -> None:
        if holding.exclusive or not self.shareable >> index & 1:
            # A device that is no longer shareable stays held by those that share it.
            self.exclusive |= 1 << index
        elif name := holding.differing(self.devices[index]):
            # So does one whose capacities have other names: what its shares leave is unknown.
            self.exclusive |= 1 << index
            self.differing = {**self.differing, index: name}
        else:
            self.charged |= 1 << index
            used[index] = holding.capacity
