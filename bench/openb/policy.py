"""The interface of a placement policy."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from bench.openb.model import FreeNode, Placement, PodRequest

Demand: TypeAlias = Mapping[PodRequest, int]
"""Number of pods per request in the pod list."""


class Policy(Protocol):
    """Scores placements; the placement with the highest score minus the price of its lost places wins.

    A policy that prefers nodes with few free cores:

        class FewestCores:
            def placements(self, free: FreeNode, request: PodRequest) -> Sequence[Placement]:
                after = next(free.after_placing(request))
                return (Placement(-after.cpu, after),)

            def prices(self) -> Sequence[float]:
                return ()

            def placed(self, before: FreeNode, after: FreeNode) -> None:
                pass
    """

    def placements(self, free: FreeNode, request: PodRequest) -> Sequence[Placement]:
        """Return the best placement of a pod that fits, for every set of lost places."""
        ...

    def prices(self) -> Sequence[float]:
        """Return the current price of a place for each rare request, by its index in `LostPlaces`."""
        ...

    def placed(self, before: FreeNode, after: FreeNode) -> None:
        """Note that a node changed."""
        ...
