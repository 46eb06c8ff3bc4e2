"""Host resources: the cpu and memory that nodes have left, and that the pods of a demand request.

In: what each node has left, and the requests of pods. Out: amounts, and a log of the nodes whose amounts changed. Nodes
without room for the pods are excluded earlier (`Demand.nodes`); these amounts rate devices left without enough of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apportion.allocator.changelog import ChangeLog

LEAST_LOGGED = 1024
"""Entries of the log kept in any case."""


class HostResources(NamedTuple):
    """Amounts of cpu and memory, requested or left."""

    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""

    @classmethod
    def of(cls, resources: Mapping[str, int]) -> "HostResources":
        """Return the cpu and memory among resources by name, in these units."""
        return cls(resources.get("cpu", 0), resources.get("memory", 0))

    def plus(self, other: "HostResources") -> "HostResources":
        """Return the sum."""
        return HostResources(self.cpu + other.cpu, self.memory + other.memory)

    def less(self, other: "HostResources") -> "HostResources":
        """Return the difference, no amount below zero."""
        return HostResources(max(self.cpu - other.cpu, 0), max(self.memory - other.memory, 0))

    def holds(self, other: "HostResources") -> bool:
        """Say whether both amounts are at least as large."""
        return self.cpu >= other.cpu and self.memory >= other.memory


NO_RESOURCES = HostResources(0, 0)


@dataclass(frozen=True, slots=True)
class HostDemand:
    """What the pods of a demand request of a node's cpu and memory."""

    requested: HostResources
    """Sum over all pods of the demand."""
    taken: Mapping[str, HostResources] = field(default_factory=dict)
    """Amounts by node, taken in addition to what the state knows."""

    def with_taken(self, taken: Mapping[str, HostResources]) -> "HostDemand":
        """Return the same demand with more amounts taken on nodes."""
        both = {name: self.taken.get(name, NO_RESOURCES).plus(amounts) for name, amounts in taken.items()}
        return replace(self, taken={**self.taken, **both}) if taken else self


class HostTable:
    """The cpu and memory that nodes have left. Nodes without an entry are unlimited."""

    def __init__(self) -> None:
        self.left: dict[str, HostResources] = {}
        self._log: ChangeLog[str] = ChangeLog()

    def put(self, name: str, left: HostResources | None) -> None:
        """Set what a node has left; None: remove the entry."""
        if self.left.get(name) == left:
            return
        if left is None:
            del self.left[name]
        else:
            self.left[name] = left
        self._log.add(name, most=LEAST_LOGGED + 2 * len(self.left))

    def left_for(self, name: str, host: HostDemand) -> HostResources | None:
        """Return what a node has left for a demand; None: unlimited."""
        left = self.left.get(name)
        taken = host.taken.get(name)
        return left if left is None or taken is None else left.less(taken)

    def since(self, cursor: int) -> tuple[int, Sequence[str] | None]:
        """Return the end of the log, and the nodes that changed after the cursor (None: the cursor was dropped, read all)."""
        return self._log.since(cursor)
