"""SharePlan: the devices that a query for shares of devices may take, and what it consumes of each.

In: a node's view, a query. Out: per alternative the devices with their amounts, one object for all nodes and classes on which
these are equal; None for queries other than for shares, by selectors, of devices without counters. No prices are involved.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Topic, keep
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import MOST_RESULTS, Alternative, ErrorCause, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.dra.capacity import Capacity
from apportion.dra.quantity import Quantity

MOST_PLANS = 4096
"""Plans kept per node class."""


class ShareAmounts(NamedTuple):
    """What a share takes of a device, in 10^-9."""

    own: Mapping[str, int]
    """Amounts by capacity."""
    most: Mapping[str, int]
    """By capacity the amount that others may use beside it."""
    key: tuple[tuple[str, int], ...]
    """The amounts, to compare them."""


class AlternativeShares(NamedTuple):
    """The devices of one alternative."""

    number: int
    """How many the alternative takes."""
    devices: tuple[tuple[int, ShareAmounts], ...]
    """In the order of the node's devices."""
    in_one_pool: bool


class SharePlan:
    """The devices of all alternatives. Compared by identity."""

    __slots__ = ("alternatives",)

    def __init__(self, alternatives: tuple[AlternativeShares, ...]) -> None:
        self.alternatives = alternatives


PlanKey: TypeAlias = tuple[Query, tuple[int, ...]]
"""The query; and the devices that match, where these differ from node to node."""

PLANS: Topic[PlanKey, SharePlan | None] = Topic("share plans", MOST_PLANS)


def share_plan(view: NodeView, query: Query, selectors: SelectorLookup) -> SharePlan | None:
    """Return the plan of a node. Hot path."""
    node_class = view.node_class
    if node_class is None:
        return None
    kept: dict[PlanKey, SharePlan | None] | None = node_class.memos.get(PLANS)
    if kept is None:
        kept = node_class.memo(PLANS)
    key: PlanKey = query, ()
    found = kept.get(key)
    if found is not None or key in kept:
        return found
    if (
        len(query.slots) != 1
        or query.constraints
        or not query.counted
        or not view.features.consumable_capacity
    ):
        return keep(kept, key, None, PLANS.most)
    reads = [selectors(text).reads for text in query.texts]
    if not node_class.covers(reads):
        matched = view.matched(query, selectors)
        if matched is None:
            return None
        key = query, matched
        if key in kept:
            return kept[key]
        return keep(kept, key, _read(view, query, selectors), PLANS.most)
    names = sorted({name for read in reads for _, name in read or ()})
    made = node_class.table(("share plan", query), names, lambda: _read(view, query, selectors))
    return keep(kept, key, made, PLANS.most)


def _read(view: NodeView, query: Query, selectors: SelectorLookup) -> SharePlan | None:
    alternatives = []
    for alternative in query.slots[0].alternatives:
        shares = _shares(view, alternative, selectors)
        if shares is None:
            return None
        alternatives.append(shares)
    return SharePlan(tuple(alternatives))


def _shares(view: NodeView, alternative: Alternative, selectors: SelectorLookup) -> AlternativeShares | None:
    mask, errors = view.selected(alternative, selectors)
    mask &= view.tolerating(alternative.tolerations)
    # More devices than an allocation may have are no choice, which the search knows.
    if (
        errors
        or not 1 <= alternative.count <= MOST_RESULTS
        or mask & (view.base & ~(view.plain & view.shareable))
    ):
        return None
    devices = []
    matching = 0
    # The slice reader shares equal capacities, so most devices of a node need no arithmetic of their own.
    amounts: dict[int, ShareAmounts | None] = {}
    for index in bits(mask & view.base):
        capacity = view.devices[index].capacity
        shared = id(capacity)
        if shared not in amounts:
            taken = view.charge(index, alternative)
            if isinstance(taken, ErrorCause):
                return None
            amounts[shared] = _amounts(taken, capacity) if taken is not None else None
        found = amounts[shared]
        if found is not None:
            devices.append((index, found))
            matching |= 1 << index
    pools = [pool for pool in view.template.pool_masks if pool & matching]
    return AlternativeShares(alternative.count, tuple(devices), len(pools) <= 1)


def _amounts(taken: Mapping[str, Quantity], capacity: Mapping[str, Capacity]) -> ShareAmounts | None:
    """Return the amounts; None where the whole device has less."""
    own = {name: amount.nano for name, amount in taken.items()}
    most = {name: capacity[name].value.nano - amount for name, amount in own.items()}
    if any(amount < 0 for amount in most.values()):
        return None
    return ShareAmounts(own, most, tuple(own.items()))
