"""SinglePlan: the devices that a query for one device may take on a node, by counter group.

In: a node's view, a query. Out: per alternative the groups and their devices, so that rating a node costs one look-up per
group; None for queries other than for one device by selectors.
"""

from typing import NamedTuple

from apportion.allocator.memo import Topic, keep
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import Solved
from apportion.allocator.search.search import Pick

MOST_SOLVED = 8192
"""Outcomes kept per plan."""

MOST_SHARED = 4096
"""Plans kept per node class."""

MOST_LOCAL = 64
"""Plans kept per node, where its class has none for all its nodes."""


class AlternativePlan(NamedTuple):
    """The devices of one alternative."""

    groups: tuple[tuple[int, int], ...]
    """(group, mask over its devices) for each group with a device to take."""
    mask: int
    """The devices of these groups."""
    plain: int
    """Devices without counters."""


class SinglePlan:
    """The devices of all alternatives, equal for all nodes of a class."""

    __slots__ = ("_solved", "alternatives", "plain")

    def __init__(self, alternatives: tuple[AlternativePlan, ...]) -> None:
        self.alternatives = alternatives
        self.plain = any(alternative.plain for alternative in alternatives)
        """Whether an alternative has devices without counters."""
        self._solved: dict[tuple[int, int, int, int], Solved] = {}

    def solved(self, alternative: int, index: int, lost: int, left: int) -> Solved:
        """Return the outcome with these values; equal ones are one object."""
        key = alternative, index, lost, left
        found = self._solved.get(key)
        if found is None:
            made = Solved((alternative,), (0, lost, left), (Pick(0, alternative, index),))
            found = keep(self._solved, key, made, MOST_SOLVED)
        return found


PLANS: Topic[Query, SinglePlan | None] = Topic("plans", MOST_SHARED)
LOCAL_PLANS: Topic[Query, SinglePlan | None] = Topic("plans of one node", MOST_LOCAL)


def single_plan(
    view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool
) -> SinglePlan | None:
    """Return the plan of a node. `shared`: all nodes of the class have the same plan, so the class keeps it."""
    node_class = view.node_class
    if not shared or node_class is None:
        kept = view.memo(LOCAL_PLANS)
        return kept[query] if query in kept else keep(kept, query, _make(view, query, selectors), MOST_LOCAL)
    kept = node_class.memos.get(PLANS) or node_class.memo(PLANS)
    return kept[query] if query in kept else keep(kept, query, _make(view, query, selectors), MOST_SHARED)


def _make(view: NodeView, query: Query, selectors: SelectorLookup) -> SinglePlan | None:
    if len(query.slots) != 1 or query.constraints or not query.plain or view.limited:
        return None
    plans: list[AlternativePlan] = []
    for alternative in query.slots[0].alternatives:
        mask, errors = view.selected(alternative, selectors)
        if errors or alternative.count != 1:
            return None
        mask &= view.tolerating(alternative.tolerations)
        groups = tuple(
            (number, group.gather(mask)) for number, group in enumerate(view.groups) if group.mask & mask
        )
        plans.append(AlternativePlan(groups, mask & ~view.plain, mask & view.plain))
    return SinglePlan(tuple(plans))
