"""SharePrices: value of a shared device's remaining capacity: the best value of demanded shares that still fit.

In: a node's view, a device, the capacity that its shares use. Out: an integer, `UNIT` for an empty device. The same linear
program as for shared counters, over the device's capacities. Without demand for shares, or with too many states, the value
is the square of the free part, so that devices in use are filled first.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT, CutPrices
from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector
from apportion.allocator.pricing.demandmix import DemandEntry
from apportion.allocator.pricing.prices import DemandPrices, NodePrices
from apportion.allocator.rules.query import Alternative

OPENED = 8
"""The free part of a partition that is shared loses an eighth of its value: its card can no longer be cut in another way."""

MOST_KEPT = 8192
"""Node prices whose rows are kept; capacities whose cut prices are."""

Row = tuple[tuple[str, ...], Vector, CutPrices | None]
"""Names of the capacities, amounts of the whole device, prices; None without demand."""


class _ClassRows(NamedTuple):
    """Rows of the devices of node classes with equal prices, made as they are asked for."""

    demand: tuple[tuple[int, DemandEntry, Alternative], ...]
    """The requests in the mix, each with the devices that would serve it."""
    firsts: dict[int, int]
    """By device to share the first one with the same capacity: the slice reader shares equal maps."""
    by_device: dict[int, Row]
    by_demand: dict[tuple[int, tuple[bool, ...]], Row]
    """By capacity (its first device) and which of the requests the device would serve."""


class SharePrices:
    """Values of shared devices under one demand mix."""

    def __init__(self, prices: DemandPrices) -> None:
        self._prices = prices
        self._rows: Memo[NodePrices, _ClassRows] = Memo(MOST_KEPT)
        self._by_demand: Memo[object, CutPrices | None] = Memo(MOST_KEPT)

    def worth(self, view: NodeView, index: int, *uses: Mapping[str, int]) -> int:
        """Return the value of what `uses` leave: amounts by capacity name, in 10^-9, of shares present and new."""
        names, full, cut_prices = self.row(view, index)
        left = full
        for use in uses:
            if use:
                left = tuple([amount - use.get(name, 0) for name, amount in zip(names, left, strict=True)])
        known = cut_prices.worth(left) if cut_prices is not None else None
        if known is not None:
            return known
        free = min(
            (Fraction(max(amount, 0), total) for amount, total in zip(left, full, strict=True)),
            default=Fraction(1),
        )
        return round(free * free * UNIT)

    def left(self, view: NodeView, index: int, *uses: Mapping[str, int]) -> int:
        """Return the value of what `uses` leave of a device that is in use already, in the units of the node's other devices.

        A partition is worth what it takes of its card. Opened for shares, it is worth less, since it can only be shared.
        """
        value = self.worth(view, index, *uses)
        member = view.group_of.get(index)
        if member is None:
            return value
        number, local = member
        fresh = view.groups[number].fresh
        if not fresh.fits >> local & 1:
            return 0
        group_prices = self._prices.of(view).by_group[number]
        whole = group_prices.worth(fresh) - group_prices.worth(fresh.after(local))
        return whole * value * (OPENED - 1) // (max(self.worth(view, index), 1) * OPENED)

    def taken(self, view: NodeView, index: int, own: Mapping[str, int]) -> int:
        """Return the value that a share takes of a device, without what the first share of a partition takes of its card."""
        used = view.used.get(index, {})
        if index in view.group_of and not view.charged >> index & 1:
            return -self.left(view, index, own)
        return self.left(view, index, used) - self.left(view, index, used, own)

    def row(self, view: NodeView, index: int) -> Row:
        """Return the capacities of a device with their prices."""
        # Classes with equal prices have equal capacities, and the same devices serve the requests in the mix.
        node_prices = self._prices.of(view)
        rows = self._rows.get(node_prices)
        if rows is None:
            rows = self._class_rows(view)
            if view.node_class is not None:
                self._rows[node_prices] = rows
        found = rows.by_device.get(index)
        if found is None:
            serves = tuple([bool(mask >> index & 1) for mask, _, _ in rows.demand])
            key = rows.firsts.get(index, index), serves
            found = rows.by_demand.get(key)
            if found is None:
                found = rows.by_demand[key] = self._make_row(view, index, rows.demand)
            rows.by_device[index] = found
        return found

    def _class_rows(self, view: NodeView) -> _ClassRows:
        selectors = self._prices.selectors
        firsts: dict[int, int] = {}
        same: dict[int, int] = {}
        for index in bits(view.shareable):
            firsts[index] = same.setdefault(id(view.devices[index].capacity), index)
        demand = tuple(
            (entry.mask(view, selectors), entry, entry.alternative)
            for entry in self._prices.mix
            if entry.alternative is not None
        )
        return _ClassRows(demand, firsts, {}, {})

    def _make_row(
        self, view: NodeView, index: int, served: Iterable[tuple[int, DemandEntry, Alternative]]
    ) -> Row:
        whole = {name: entry.value.nano for name, entry in view.devices[index].capacity.items()}
        names = tuple(sorted(name for name, amount in whole.items() if amount > 0))
        full = tuple(whole[name] for name in names)
        demand: dict[Vector, int] = {}
        for mask, entry, alternative in served:
            taken = view.charge(index, alternative) if mask >> index & 1 else None
            if isinstance(taken, dict):
                share = tuple(taken[name].nano if name in taken else 0 for name in names)
                demand[share] = demand.get(share, 0) + entry.weight * entry.count
        return names, full, self._cut_prices(full, tuple(demand.items()))

    def _cut_prices(self, full: Vector, demand: Sequence[tuple[Vector, int]]) -> CutPrices | None:
        key = full, demand
        if key not in self._by_demand:
            states = CutStates(full, [[share] for share, _ in demand])
            cut_prices = CutPrices(states, [count for _, count in demand]) if states.full != NOWHERE else None
            self._by_demand[key] = cut_prices if cut_prices is not None and any(cut_prices.prices) else None
        return self._by_demand[key]
