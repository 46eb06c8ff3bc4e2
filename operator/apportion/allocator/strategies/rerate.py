"""Nodes searched before, rated anew: what is chosen on a node often does not depend on what the demand is worth.

In: a node's view, a shape, a scorer, what was found on nodes that stand alike. Out: what a search would answer. Devices
without counters that only one claim may have lose nothing on the node but themselves, so the search takes the same ones
whatever the prices; only the rating is new.
"""

from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import Outcome, Solved, Unsolved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import STEPS, Search
from apportion.allocator.search.solve import rated, solve

MOST_KEPT = 256
"""Meanings whose answers a standing keeps."""


def solve_again(
    view: NodeView, shape: NamedQuery, scorer: Scorer, answers: SelectorLookup, standing: NodeState
) -> Outcome:
    """Search one node, or rate what was found before on the nodes that stand as it does."""
    known = standing.known
    former = known.get(shape.meaning) if known is not None else None
    if isinstance(former, Unsolved):
        return former
    if isinstance(former, Solved):
        search = Search(view, shape, [], scorer)
        for pick in former.picks:
            search.taken |= 1 << pick.device
            search.picks.append(pick)
        return rated(search, former.ranks, former.picks, scorer)
    found = solve(view, shape, scorer, answers, steps=STEPS)
    if isinstance(found, Solved | Unsolved) and _steady(view, shape, answers):
        if known is None or len(known) >= MOST_KEPT:
            known = standing.known = {}
        known[shape.meaning] = found
    return found


def _steady(view: NodeView, shape: NamedQuery, answers: SelectorLookup) -> bool:
    """Say whether all that the claims could take is without counters and for one claim only."""
    moving = ~view.plain | view.shareable
    return shape.meaning.plain and not any(
        view.selected(want, answers)[0] & moving for slot in shape.slots for want in slot.wants
    )
