"""One way to place a pod on a node, and what is good and bad about it."""

from dataclasses import dataclass
from typing import TypeAlias

from bench.openb.worth.free import Free

Losses: TypeAlias = tuple[tuple[int, int], ...]
"""What a placement takes of things whose price moves as the cluster fills: (index of the thing, amount).

Kept apart from the score, so that a new price needs no new scores.
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to place a pod on a node."""

    score: float
    """What is good about it, apart from the losses."""
    after: Free
    """The node afterwards."""
    losses: Losses = ()
