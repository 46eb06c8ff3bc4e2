"""What a placement policy must be able to say."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from bench.openb.worth.free import Ask, Free
from bench.openb.worth.way import Way

Demand: TypeAlias = Mapping[Ask, int]
"""How often each request occurs in the list."""


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
