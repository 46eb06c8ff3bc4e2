"""Obstacles: pods on nodes that keep others off them, and whose end lets these in: by host ports, required anti-affinity, hard spread.

In: pods that wait, the neighbours on nodes. Out: amounts that are compared as resources of a node are, for a search that knows no neighbours: what is
wanted, what a node has left of it, and what the end of its pods gives back. All pods that wait together have enough of it, or none has.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from apportion.dra.node import Resources
from apportion.dra.pod import Pod
from apportion.scheduling.room.company import kind_of
from apportion.scheduling.room.neighbours import Neighbours


@dataclass(frozen=True, slots=True)
class NodeObstacles:
    """The obstacles on one node."""

    rows: Mapping[str, tuple[int, frozenset[str]]]
    """How many pods have to go, and of which (UIDs), by the name of what they take."""
    full: int
    """What the node has of it where nobody has to go; each pod that has to go takes as much."""

    @property
    def left(self) -> Resources:
        """Return what the node has left."""
        return {name: self.full * (1 - count) for name, (count, _) in self.rows.items()}

    def freed(self, pods: Iterable[Pod]) -> Resources:
        """Return what the end of some pods gives back."""
        going = {pod.uid for pod in pods}
        return {name: self.full * len(uids & going) for name, (_, uids) in self.rows.items()}

    def stay(self, wanted: Iterable[str], gone: AbstractSet[str]) -> bool:
        """Say whether, once some pods (UIDs) are gone, too few of those have gone that take something that is `wanted`."""
        rows = (self.rows[name] for name in wanted)
        return any(len(uids & gone) < count for count, uids in rows)


class Obstacles:
    """The obstacles of pods that wait together."""

    def __init__(self, pods: Collection[Pod], neighbours: Neighbours) -> None:
        """Pods that differ in nothing that neighbours look at have the same ones."""
        self._neighbours = neighbours
        self._full = max(1, len(pods))
        self._kinds: dict[object, tuple[int, Pod]] = {}
        for pod in pods:
            if pod.node is None and neighbours.has_obstacles(pod):
                self._kinds.setdefault(kind_of(pod), (len(self._kinds), pod))

    def wanted(self, pods: Iterable[Pod]) -> dict[str, int]:
        """Return what some of the pods want of a node."""
        kinds = [kind_of(pod) for pod in pods] if self._kinds else []
        found = [self._kinds[kind] for kind in kinds if kind in self._kinds]
        return {
            _name(number, rule): 1 for number, pod in found for rule in range(1 + len(pod.relations.spread))
        }

    def on(self, node: str) -> NodeObstacles:
        """Return those on a node."""
        rows = {
            _name(number, rule): found
            for number, pod in self._kinds.values()
            for rule, found in enumerate(self._neighbours.obstacles(pod, node))
        }
        return NodeObstacles(rows, self._full)


def holds_devices(pod: Pod) -> bool:
    """Say whether a pod may be one whose end gives devices back."""
    return bool(pod.claims)


def _name(number: int, rule: int) -> str:
    # No resource has such a name (core/v1, a qualified name).
    return f"obstacle:{number}:{rule}"
