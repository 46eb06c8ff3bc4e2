"""What a placement policy must be able to say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from apportion.allocator.worth.free import Ask, Free

Losses: TypeAlias = tuple[tuple[int, float], ...]
"""What a placement takes of things whose price changes as the cluster fills: (index of the thing, amount)."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to place a pod on a node."""

    score: float
    """What is good about it, apart from the losses."""
    after: Free
    """The node afterwards."""
    losses: Losses = ()


class Policy(Protocol):
    """Scores placements; the highest score, less the losses at today's prices, wins."""

    def ways(self, free: Free, ask: Ask) -> Sequence[Way]:
        """Return the best way to place a pod that fits, for every set of losses."""
        ...

    def prices(self) -> Sequence[float]:
        """Return today's price of each thing that ways may lose."""
        ...

    def placed(self, before: Free, after: Free) -> None:
        """Learn that a node has changed."""
        ...


Demand: TypeAlias = Mapping[Ask, int]
