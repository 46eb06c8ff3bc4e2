"""Outcome: what one node answers to a query. Kept until the node changes."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.search.partial import Pick

Score: TypeAlias = tuple[float, ...]
"""What equal ranks are compared by; the smallest wins."""

Contention: TypeAlias = tuple[int, ...]
"""Sets of devices that a choice takes from other claims, once per device. Its cost changes with the cluster, so the
outcome keeps the sets and the scorer adds their cost when nodes are compared."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The node can serve."""

    ranks: tuple[int, ...]
    """Which alternative every slot got: earlier alternatives win over any score."""
    score: Score
    picks: tuple[Pick, ...]
    contention: Contention = ()
    has_picks: bool = True
    """False: an estimate. The score is known, and only a search can tell the picks."""


@dataclass(frozen=True, slots=True)
class Unsolved:
    """The node cannot serve, or not within the steps allowed."""

    why: Literal["none", "node", "budget"]


Outcome: TypeAlias = Solved | Unsolved | NodeError

NOTHING = Unsolved("none")
BROKEN = Unsolved("node")
EXHAUSTED = Unsolved("budget")
