"""Nodes searched before, rated anew: what is chosen on a node often does not depend on what the demand is worth.

In: a node's view, a shape, a scorer, what was found on nodes that stand alike. Out: what a search would answer. Devices
without counters that only one claim may have lose nothing on the node but themselves, so the search takes the same ones
whatever the prices; only the rating is new.
"""

from apportion.allocator.outcome import Outcome, Solved, Unsolved, rated, solve
from apportion.allocator.score.strategy import Scorer
from apportion.allocator.search import STEPS, Search
from apportion.allocator.shape import Shape
from apportion.allocator.standing import Standing
from apportion.allocator.view import Answering, NodeView

MOST_KEPT = 256
"""Meanings whose answers a standing keeps."""


def solve_again(
    view: NodeView, shape: Shape, scorer: Scorer, answers: Answering, standing: Standing
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


def _steady(view: NodeView, shape: Shape, answers: Answering) -> bool:
    """Say whether all that the claims could take is without counters and for one claim only."""
    moving = ~view.plain | view.shareable
    return shape.meaning.plain and not any(
        view.selected(want, answers)[0] & moving for slot in shape.slots for want in slot.wants
    )
