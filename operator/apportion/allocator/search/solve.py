"""What one node answers to a shape: kept until the node changes."""

from collections.abc import Mapping

from apportion.allocator.closeness.closest import closest
from apportion.allocator.closeness.scorer import LadderScorer
from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.candidates import candidates
from apportion.allocator.search.outcome import BROKEN, EXHAUSTED, NOTHING, Outcome, Solved
from apportion.allocator.search.scorer import Scorer, is_harmful
from apportion.allocator.search.search import STEPS, OutOfBudget, Pick, Search


def solve(
    view: NodeView,
    shape: NamedQuery,
    scorer: Scorer,
    answers: SelectorLookup,
    *,
    steps: int = STEPS,
    prefer: Mapping[int, int] | None = None,
    excluded: int = 0,
) -> Outcome:
    """Search one node. The answer depends on the arguments only."""
    try:
        search = Search(
            view, shape, candidates(view, shape, answers, excluded), scorer, steps=steps, prefer=prefer
        )
        picks = search.run()
    except NodeError as fault:
        return fault
    except OutOfBudget:
        return EXHAUSTED
    if picks is None:
        return NOTHING if view.invalid is None else BROKEN
    chosen = dict.fromkeys(range(len(shape.slots)), 0) | {pick.slot: pick.want for pick in picks}
    if isinstance(scorer, LadderScorer):
        picks, place = closest(search, tuple(chosen.values()), picks, scorer)
        return Solved(tuple(chosen.values()), place, picks)
    return rated(search, tuple(chosen.values()), picks, scorer)


def rated(search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...], scorer: Scorer) -> Solved:
    """Return what a finished search comes to."""
    bonus = sum([search.prefer.get(pick.device, 0) for pick in picks]) if search.prefer else 0
    harm = scorer.harm(search) if is_harmful(scorer) else ()
    return Solved(ranks, (-bonus, *scorer.score(search)), picks, harm)
