"""The openb model of a cluster: what a pod requests, what a node has free, and one placement of a pod on a node.

Shared by the replay and all its policies. Devices have one dimension, milli; nodes have cores and a device model besides.
PodRequest and FreeNode are named tuples because they are cache keys in the hottest loop: a dataclass hashes five times slower.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

WHOLE = 1000
"""Milli of one whole device."""


class PodRequest(NamedTuple):
    """The resources a pod requests."""

    cpu: int
    """Milli cores."""
    devices: int
    """Number of devices; 0 for none."""
    milli: int
    """Milli of each device; `WHOLE` for whole devices."""
    models: frozenset[str] = frozenset()
    """Accepted device models; empty: any."""

    @property
    def total_milli(self) -> int:
        """Return the milli of all devices together."""
        return self.devices * self.milli


class FreeNode(NamedTuple):
    """The free resources of a node."""

    cpu: int
    """Milli cores."""
    model: str
    free_milli: tuple[int, ...]
    """Free milli of each device."""

    def fits(self, request: PodRequest) -> bool:
        """Say whether the pod fits: cores, model, and enough devices with enough free milli each."""
        if self.cpu < request.cpu or (request.models and self.model not in request.models):
            return False
        return (
            not request.devices or sum(free >= request.milli for free in self.free_milli) >= request.devices
        )

    def after_placing(self, request: PodRequest) -> Iterator["FreeNode"]:
        """Yield the node after each distinct placement of a pod that fits.

        A pod with one device may take any device with enough free milli. A pod with several whole devices takes the first
        free ones: the choice does not matter in this model.
        """
        cpu = self.cpu - request.cpu
        if request.devices == 0:
            yield FreeNode(cpu, self.model, self.free_milli)
        elif request.devices == 1:
            seen = set()
            for index, free in enumerate(self.free_milli):
                if free >= request.milli and free not in seen:
                    seen.add(free)
                    yield FreeNode(cpu, self.model, self._taken(index, request.milli))
        else:
            missing, free_milli = request.devices, list(self.free_milli)
            for index, free in enumerate(free_milli):
                if missing and free >= request.milli:
                    free_milli[index], missing = free - request.milli, missing - 1
            yield FreeNode(cpu, self.model, tuple(free_milli))

    def sorted_devices(self) -> "FreeNode":
        """Return the same node with its devices sorted: nodes that differ only in the order of devices become equal."""
        return FreeNode(self.cpu, self.model, tuple(sorted(self.free_milli)))

    def _taken(self, index: int, milli: int) -> tuple[int, ...]:
        return (*self.free_milli[:index], self.free_milli[index] - milli, *self.free_milli[index + 1 :])


LostPlaces: TypeAlias = tuple[tuple[int, int], ...]
"""(index of a rare request, places for it that a placement takes away).

Kept apart from the score because the price of a place changes while the cluster fills: a new price needs no new scores.
"""


@dataclass(frozen=True, slots=True)
class Placement:
    """One placement of a pod on a node."""

    score: float
    """Without the price of the lost places; higher is better."""
    after: FreeNode
    """The node after the placement."""
    losses: LostPlaces = ()
