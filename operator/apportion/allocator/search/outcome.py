"""Outcome: the result of a query on one node: solved with picks, unsolved, or an error."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.allocator.rules.query import NodeError
from apportion.allocator.search.partial import Pick

Score: TypeAlias = tuple[float, ...]
"""Rating of outcomes with equal ranks; the smallest wins."""

Contention: TypeAlias = tuple[int, ...]
"""Numbers of the device sets of other claims that a choice takes devices from, one entry per device. Their cost changes with
the cluster, so the outcome keeps the numbers, and the scorer adds the cost when nodes are compared."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The node can serve the query."""

    ranks: tuple[int, ...]
    """Number of the alternative chosen for each slot; compared before the score."""
    score: Score
    picks: tuple[Pick, ...]
    contention: Contention = ()
    has_picks: bool = True
    """False: an estimate, with the score but without picks; a search finds them."""


@dataclass(frozen=True, slots=True)
class Unsolved:
    """No solution. `none`: there is none; `node`: there is none, and a pool of the node is invalid; `budget`: steps used up."""

    why: Literal["none", "node", "budget"]
    cut_short: bool = False
    """Whether the search had fewer steps than one may have."""


Outcome: TypeAlias = Solved | Unsolved | NodeError

NOTHING = Unsolved("none")
BROKEN = Unsolved("node")
EXHAUSTED = Unsolved("budget")
CUT_SHORT = Unsolved("budget", cut_short=True)
"""Others had used up steps before: it holds only as long as a search would have no more."""
