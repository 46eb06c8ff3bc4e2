"""What is left of a device that several claims share is worth: the best value of demanded shares that still fit.

In: a node's view, a device, what its shares use. Out: an integer, `UNIT` for an empty device. The same linear program
as for shared counters, over the device's capacities; where nobody asked for shares yet, or states are too many, room is
worth its square, so that what is broken gets filled first.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from apportion.allocator.equivalence.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.pricing.cutprices import UNIT, CutPrices
from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector
from apportion.allocator.pricing.demandmix import DemandMix

MOST_KEPT = 8192
"""Devices whose prices are kept."""

Row = tuple[tuple[str, ...], Vector, CutPrices | None]
"""Names of the capacities, the whole, the prices."""


class SharePrices:
    """Values of shared devices under one mix."""

    def __init__(self, mix: DemandMix, answers: SelectorLookup) -> None:
        self._mix = mix
        self._answers = answers
        self._rows: dict[tuple[NodeClass, int], Row] = {}
        self._cuttings: dict[object, CutPrices | None] = {}

    def worth(self, view: NodeView, index: int, *uses: Mapping[str, int]) -> int:
        """Return what is left worth, given what shares use of it, in 10^-9."""
        names, full, cutting = self._row(view, index)
        left = tuple(
            total - sum(use.get(name, 0) for use in uses) for name, total in zip(names, full, strict=True)
        )
        known = cutting.worth(left) if cutting is not None else None
        if known is not None:
            return known
        part = min(
            (Fraction(max(here, 0), total) for here, total in zip(left, full, strict=True)),
            default=Fraction(1),
        )
        return round(part * part * UNIT)

    def _row(self, view: NodeView, index: int) -> Row:
        if view.kind is None:
            return self._look(view, index)
        key = view.kind, index
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) >= MOST_KEPT:
                self._rows.clear()
            found = self._rows[key] = self._look(view, index)
        return found

    def _look(self, view: NodeView, index: int) -> Row:
        whole = {name: entry.value.nano for name, entry in view.devices[index].capacity.items()}
        names = tuple(sorted(name for name, amount in whole.items() if amount > 0))
        full = tuple(whole[name] for name in names)
        demand: dict[Vector, int] = {}
        for entry in self._mix:
            if entry.want is None or not entry.mask(view, self._answers) >> index & 1:
                continue
            taken = view.charge(index, entry.want)
            if isinstance(taken, dict):
                share = tuple(taken[name].nano if name in taken else 0 for name in names)
                demand[share] = demand.get(share, 0) + entry.weight * entry.count
        return names, full, self._cutting(full, tuple(demand.items()))

    def _cutting(self, full: Vector, demand: Sequence[tuple[Vector, int]]) -> CutPrices | None:
        key = full, demand
        if key not in self._cuttings:
            if len(self._cuttings) >= MOST_KEPT:
                self._cuttings.clear()
            board = CutStates(full, [[share] for share, _ in demand])
            cutting = CutPrices(board, [count for _, count in demand]) if board.full != NOWHERE else None
            self._cuttings[key] = cutting if cutting is not None and any(cutting.prices) else None
        return self._cuttings[key]
