"""Plans: what a claim for one device may take on nodes of one kind, cut by groups of devices.

In: a node's view, a shape. Out: per alternative the groups with their open devices, so that a node is judged by a few
look-ups; None where the claim asks for something else than one device by selectors.
"""

from typing import NamedTuple

from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import Solved
from apportion.allocator.search.search import Pick

MOST_SOLVED = 8192
"""Outcomes remembered per plan."""


class AlternativePlan(NamedTuple):
    """One alternative."""

    groups: tuple[tuple[int, int], ...]
    """(group, bits of its devices) wherever there is something to take."""
    mask: int
    """The devices of these groups."""
    plain: int
    """Devices without counters."""


class SinglePlan:
    """How to judge a node."""

    __slots__ = ("_solved", "plain", "ways")

    def __init__(self, ways: tuple[AlternativePlan, ...]) -> None:
        self.ways = ways
        self.plain = any(way.plain for way in ways)
        """Whether devices without counters may be taken, too."""
        self._solved: dict[tuple[int, int, int, int], Solved] = {}

    def solved(self, want: int, index: int, lost: int, left: int) -> Solved:
        """Return the one object for this outcome."""
        key = want, index, lost, left
        found = self._solved.get(key)
        if found is None:
            if len(self._solved) >= MOST_SOLVED:
                self._solved.clear()
            found = self._solved[key] = Solved((want,), (0, lost, left), (Pick(0, want, index),))
        return found


def single_plan(
    view: NodeView, shape: NamedQuery, answers: SelectorLookup, *, shared: bool
) -> SinglePlan | None:
    """Return the plan of a node. `shared`: nodes of one kind answer alike, so it is made once per kind."""
    meaning = shape.meaning
    keeper = view.kind if shared and view.kind is not None else view
    if meaning in keeper.plans:
        return keeper.plans[meaning]
    return keeper.remember(meaning, _make(view, shape, answers))


def _make(view: NodeView, shape: NamedQuery, answers: SelectorLookup) -> SinglePlan | None:
    if len(shape.slots) != 1 or shape.rules or not shape.meaning.plain or view.limited:
        return None
    ways: list[AlternativePlan] = []
    for want in shape.slots[0].wants:
        mask, errors = view.selected(want, answers)
        if errors or want.count != 1:
            return None
        mask &= view.tolerating(want.tolerations)
        groups = tuple(
            (number, group.gather(mask)) for number, group in enumerate(view.groups) if group.mask & mask
        )
        ways.append(AlternativePlan(groups, mask & ~view.plain, mask & view.plain))
    return SinglePlan(tuple(ways))
