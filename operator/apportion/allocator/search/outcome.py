"""What one node answers to a query: kept until the node changes."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.search.scorer import Contention, Score
from apportion.allocator.search.search import Pick


@dataclass(frozen=True, slots=True)
class Solved:
    """The node can serve."""

    ranks: tuple[int, ...]
    """Which alternative every slot got: earlier ones win over any score."""
    score: Score
    picks: tuple[Pick, ...]
    harm: Contention = ()
    """What it takes from others; its cost comes on top of the score when nodes are compared."""
    chosen: bool = True
    """Whether the picks are there; False: the score is known, and the search has to be asked for them."""


@dataclass(frozen=True, slots=True)
class Unsolved:
    """The node cannot serve, or not within the steps allowed."""

    why: Literal["none", "node", "budget"]


Outcome: TypeAlias = Solved | Unsolved | NodeError

NOTHING = Unsolved("none")
BROKEN = Unsolved("node")
EXHAUSTED = Unsolved("budget")
