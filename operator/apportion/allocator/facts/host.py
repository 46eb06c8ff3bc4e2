"""What of a node pods take beside devices: cpu and memory.

In: what every node has left, as facts; what a demand's pods request. Out: amounts, and a log of the nodes whose amounts
changed. Whether pods fit is settled before (`Demand.nodes`); here it is about devices that are left with too little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apportion.allocator.changelog import ChangeLog

LEAST_LOGGED = 1024
"""Entries of the log kept in any case."""


class HostResources(NamedTuple):
    """What is requested, or left."""

    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""

    @classmethod
    def of(cls, resources: Mapping[str, int]) -> "HostResources":
        """Return the cpu and memory among resources, which are in these units by name."""
        return cls(resources.get("cpu", 0), resources.get("memory", 0))

    def plus(self, other: "HostResources") -> "HostResources":
        """Return both together."""
        return HostResources(self.cpu + other.cpu, self.memory + other.memory)

    def less(self, other: "HostResources") -> "HostResources":
        """Return what is left, nothing below zero."""
        return HostResources(max(self.cpu - other.cpu, 0), max(self.memory - other.memory, 0))

    def holds(self, other: "HostResources") -> bool:
        """Say whether there is as much."""
        return self.cpu >= other.cpu and self.memory >= other.memory


NO_RESOURCES = HostResources(0, 0)


@dataclass(frozen=True, slots=True)
class HostDemand:
    """The side of a demand that is not devices."""

    asked: HostResources
    """By all pods of the demand together."""
    taken: Mapping[str, HostResources] = field(default_factory=dict)
    """By node: what is to be counted as taken on top of what the state knows."""

    def beside(self, taken: Mapping[str, HostResources]) -> "HostDemand":
        """Return the same beside others, who take these amounts of nodes."""
        both = {name: self.taken.get(name, NO_RESOURCES).plus(amounts) for name, amounts in taken.items()}
        return replace(self, taken={**self.taken, **both}) if taken else self


class HostTable:
    """What nodes have left beside devices. Part of a state; nodes that nobody spoke of have plenty."""

    def __init__(self) -> None:
        self.left: dict[str, HostResources] = {}
        self._log: ChangeLog[str] = ChangeLog()

    def put(self, name: str, left: HostResources | None) -> None:
        """Learn what a node has left; None: nothing is known of it any more."""
        if self.left.get(name) == left:
            return
        if left is None:
            del self.left[name]
        else:
            self.left[name] = left
        self._log.add(name, most=LEAST_LOGGED + 2 * len(self.left))

    def beside(self, name: str, host: HostDemand) -> HostResources | None:
        """Return what a node has left for a demand; None: plenty."""
        left = self.left.get(name)
        taken = host.taken.get(name)
        return left if left is None or taken is None else left.less(taken)

    def since(self, cursor: int) -> tuple[int, Sequence[str] | None]:
        """Return the end of the log, and the nodes that changed after the cursor (None: too long ago, look at all)."""
        return self._log.end, self._log.since(cursor)
