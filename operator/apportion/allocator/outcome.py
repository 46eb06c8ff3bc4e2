"""What one node answers to a shape: kept until the node changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.allocator.fault import Fault
from apportion.allocator.ladder.closest import closest
from apportion.allocator.ladder.laddered import Laddered
from apportion.allocator.options import options
from apportion.allocator.score.first_fit import FirstFit
from apportion.allocator.score.strategy import Harm, Score, Scorer, is_harmful
from apportion.allocator.search import STEPS, OutOfBudget, Pick, Search
from apportion.allocator.shape import Shape
from apportion.allocator.view import Answering, NodeView


@dataclass(frozen=True, slots=True)
class Solved:
    """The node can serve."""

    ranks: tuple[int, ...]
    """Which alternative every slot got: earlier ones win over any score."""
    score: Score
    picks: tuple[Pick, ...]
    harm: Harm = ()
    """What it takes from others; its cost comes on top of the score when nodes are compared."""
    chosen: bool = True
    """Whether the picks are there; False: the score is known, and the search has to be asked for them."""


@dataclass(frozen=True, slots=True)
class Unsolved:
    """The node cannot serve, or not within the steps allowed."""

    why: Literal["none", "node", "budget"]


Outcome: TypeAlias = Solved | Unsolved | Fault

NOTHING = Unsolved("none")
BROKEN = Unsolved("node")
EXHAUSTED = Unsolved("budget")


def solve(
    view: NodeView,
    shape: Shape,
    scorer: Scorer,
    answers: Answering,
    *,
    steps: int = STEPS,
    prefer: Mapping[int, int] | None = None,
    excluded: int = 0,
) -> Outcome:
    """Search one node. The answer depends on the arguments only."""
    try:
        search = Search(
            view, shape, options(view, shape, answers, excluded), scorer, steps=steps, prefer=prefer
        )
        picks = search.run()
    except Fault as fault:
        return fault
    except OutOfBudget:
        return EXHAUSTED
    if picks is None:
        return NOTHING if view.invalid is None else BROKEN
    chosen = dict.fromkeys(range(len(shape.slots)), 0) | {pick.slot: pick.want for pick in picks}
    if isinstance(scorer, Laddered):
        picks, place = closest(search, tuple(chosen.values()), picks, scorer)
        return Solved(tuple(chosen.values()), place, picks)
    return rated(search, tuple(chosen.values()), picks, scorer)


def rated(search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...], scorer: Scorer) -> Solved:
    """Return what a finished search comes to."""
    bonus = sum([search.prefer.get(pick.device, 0) for pick in picks]) if search.prefer else 0
    harm = scorer.harm(search) if is_harmful(scorer) else ()
    return Solved(ranks, (-bonus, *scorer.score(search)), picks, harm)


FIRST_FIT = FirstFit()
