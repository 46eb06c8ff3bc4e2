"""LeastFragmentation for the commonest claim, one device by its selectors: the same choice and score as the search.

In: a node's view, a shape, an outlook. Out: what the search would answer, or None where only the search can tell. The
best pick of a group of devices that share counters is known by the group's spot, so a node costs one look-up a group.
"""

from apportion.allocator.node.groupoccupancy import LOSS_WEIGHT
from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.pricing.prices import DemandPrices, Row
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import BROKEN, NOTHING, Outcome, Solved
from apportion.allocator.search.singleplan import SinglePlan, single_plan
from apportion.allocator.strategies.singledevice import nearest, solved

_MOST = LOSS_WEIGHT * LOSS_WEIGHT
"""Beyond any loss."""


class PricedSingle:
    """PricedSingle outlook's answers."""

    def __init__(self, outlook: DemandPrices) -> None:
        self._outlook = outlook

    def outcome(
        self, view: NodeView, shape: NamedQuery, answers: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the node's outcome for a shape of one slot that asks for one device with counters."""
        made = single_plan(view, shape, answers, shared=shared)
        if made is None or made.plain:
            # Devices without counters may be taken, too: another claim.
            return None
        for number, way in enumerate(made.ways):
            if view.open & way.mask:
                sight = self._outlook.sight(view)
                # Several kinds may share a sight; a plan is of one kind, or of one node.
                priced = sight.priced.get(made)
                if priced is None:
                    priced = self._outlook.price(made, sight)
                return _take(view, made, number, priced[number])
        return NOTHING if view.invalid is None else BROKEN


def _take(view: NodeView, made: SinglePlan, want: int, rows: tuple[Row, ...]) -> Solved:
    """Take what is open: the least worth lost, the least left around, the most crowded place, the first."""
    groups = view.groups
    least = _MOST
    best: list[tuple[int, tuple[int, ...]]] = []
    for number, mask, bests, stock in rows:
        spot = groups[number].spot
        found = bests.get(spot)
        if found is None:
            found = stock.best(spot, mask)
        if not found:
            continue
        key = found[0]
        if key < least:
            least = key
            best = [(number, found[1])]
        elif key == least:
            best.append((number, found[1]))
    if len(best) > 1 or len(best[0][1]) > 1:
        index = nearest(view, best)
    else:
        number, locals_ = best[0]
        index = groups[number].members[locals_[0]]
    return solved(view, made, want, index, least // LOSS_WEIGHT)
