"""Outcomes of queries for one device by its selectors, the most frequent ones, without a search.

In: a node's view, a query. Out: the outcome that the search would find; None where only the search can tell. The cheapest
device of a counter group is kept by the group's occupancy (Pack) or with its prices (LeastFragmentation), so a node costs one
look-up per group. Hot path.
"""

from apportion.allocator.node.counters import LOSS_WEIGHT
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.prices import DemandPrices, Row
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import BROKEN, NOTHING, Outcome, Solved
from apportion.allocator.search.singleplan import AlternativePlan, SinglePlan, single_plan

_PLAIN = 1
"""Key of a device without counters: nothing is lost, and its worth is one."""


def single_device(view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool) -> Outcome | None:
    """Return Pack's outcome; None where only the search can tell. `shared`: the node's class keeps the plan."""
    plan = single_plan(view, query, selectors, shared=shared)
    if plan is None:
        return None
    for number, alternative in enumerate(plan.alternatives):
        found = _take(view, plan, number, alternative)
        if found is not None:
            return found
    return NOTHING if view.invalid is None else BROKEN


def _take(view: NodeView, plan: SinglePlan, chosen: int, alternative: AlternativePlan) -> Solved | None:
    """Take the device with the least worth lost, the least worth around it, the most devices in use nearby; the first of these."""
    groups = view.groups
    least = -1
    best: list[tuple[int, tuple[int, ...]]] = []
    for number, mask in alternative.groups:
        occupancy = groups[number].occupancy
        found = occupancy.bests.get(mask)
        if found is None:
            found = occupancy.best(mask)
        if not found:
            continue
        key = found[0]
        if key == least:
            best.append((number, found[1]))
        elif key < least or least < 0:
            least = key
            best = [(number, found[1])]
    plain = alternative.plain & view.open
    if plain and (least < 0 or least >= _PLAIN):
        if least != _PLAIN:
            best.clear()
        least = _PLAIN
    elif least < 0:
        return None
    else:
        plain = 0
    if plain or len(best) > 1 or len(best[0][1]) > 1:
        index = nearest(view, best, plain)
    else:
        number, locals_ = best[0]
        index = groups[number].members[locals_[0]]
    return solved(view, plan, chosen, index, least // LOSS_WEIGHT)


def solved(view: NodeView, plan: SinglePlan, chosen: int, index: int, lost: int) -> Solved:
    """Return the outcome of taking this device for the chosen alternative."""
    template = view.template
    place = template.group_of.get(index)
    if place is None:
        left = (view.open & view.pools_of(1 << index)).bit_count() - 1
        return plan.solved(chosen, index, lost, left)
    occupancy = view.groups[place[0]].occupancy
    around = (view.open & template.pool_masks[template.pool_of_group[place[0]]]).bit_count()
    return plan.solved(chosen, index, lost, around - occupancy.room + occupancy.take(place[1]).room)


def nearest(view: NodeView, best: list[tuple[int, tuple[int, ...]]], plain: int = 0) -> int:
    """Return the device with the most devices in use nearby, the first of equals.

    `best`: group numbers with devices of the group; `plain`: mask of devices without counters.
    """
    compact = view.neighbours.compact
    mask = plain
    for number, locals_ in best:
        members = view.groups[number].members
        if compact[number]:
            mask |= 1 << members[locals_[0]]
        else:
            for local in locals_:
                mask |= 1 << members[local]
    if not mask & mask - 1:
        return mask.bit_length() - 1
    nearby = next(found for crowded in view.crowded if (found := crowded & mask))
    return (nearby & -nearby).bit_length() - 1


_MOST = LOSS_WEIGHT * LOSS_WEIGHT
"""Beyond any loss."""


class PricedSingle:
    """LeastFragmentation's outcomes under one demand mix."""

    def __init__(self, prices: DemandPrices) -> None:
        self._prices = prices

    def outcome(
        self, view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the outcome of a query for one device with counters. `shared`: the node's class keeps the plan."""
        plan = single_plan(view, query, selectors, shared=shared)
        if plan is None or plan.plain:
            # Where devices without counters match, too, only the search compares both.
            return None
        for number, alternative in enumerate(plan.alternatives):
            if view.open & alternative.mask:
                node_prices = self._prices.of(view)
                # Several classes may share node prices; a plan belongs to one class, or to one node.
                priced = node_prices.priced.get(plan)
                if priced is None:
                    priced = self._prices.price(plan, node_prices)
                return _take_priced(view, plan, number, priced[number])
        return NOTHING if view.invalid is None else BROKEN


def _take_priced(view: NodeView, plan: SinglePlan, chosen: int, rows: tuple[Row, ...]) -> Solved:
    """Take the open device with the least value lost, the least value around it, the most devices in use nearby; the first."""
    groups = view.groups
    least = _MOST
    best: list[tuple[int, tuple[int, ...]]] = []
    for number, mask, bests, group_prices in rows:
        occupancy = groups[number].occupancy
        found = bests.get(occupancy)
        if found is None:
            found = group_prices.best(occupancy, mask)
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
    return solved(view, plan, chosen, index, least // LOSS_WEIGHT)
