"""Victims: what goes together when a pod is evicted, what it gives back, and what its loss costs.

In: values that a caller reads from pods and claims. Out: frozen values, and the cost of a set of victims of one node as one
number. Sets of victims are bit masks over `NodeVictims.victims`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.decision import Decision
from apportion.dra.allocation import DeviceResult

LEAVING = -(2**31)
"""Priority of what ends anyway (the API's priorities are above it), so that every demand may wait for it."""
_RUNTIME = 48
"""Bits for lost seconds, below the number of pods: all runtime together never counts as much as one pod."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Pods that share claims, with all of their claims: none of the devices is free before all of these pods are gone."""

    key: str
    """Unique on the node; decides among equals."""
    priority: int
    """The highest among its pods, or among the pods of its group; LEAVING if it ends anyway."""
    pods: int
    """How many pods would be evicted; 0 if it ends anyway."""
    lost: int
    """Seconds that its pods have had their devices, summed: what would be lost."""
    holds: Mapping[str, tuple[DeviceResult, ...]]
    """What is held, by the keys of the allocator's state (UIDs of claims)."""
    freed: Mapping[str, int] = field(default_factory=dict)
    """Resources of the node that its pods give back, by name; `pods` counts them."""
    group: str = ""
    """The group that all of its pods belong to, if that needs a number of them; see `VictimGroup`."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """What goes with it of amounts of which only a part may go, by the keys of `NodeVictims.allowance`."""

    @property
    def weight(self) -> int:
        """Its cost as one number: pods, then lost seconds."""
        return self.pods << _RUNTIME | self.lost


@dataclass(frozen=True, slots=True)
class VictimGroup:
    """A group of pods that is evicted as a whole when fewer are left than it needs."""

    spare: int
    """How many of its pods may go before that."""
    pods: int
    """All of its pods, on other nodes too."""
    lost: int
    """Seconds that its pods have had their devices, summed."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """What goes with all of its pods, as `Victim.counted`."""

    @property
    def weight(self) -> int:
        """The cost of the whole group."""
        return self.pods << _RUNTIME | self.lost


class VictimCost(NamedTuple):
    """What a set of victims costs; compared in this order."""

    priority: int
    """The highest priority among the victims."""
    pods: int
    lost: int
    """Seconds."""

    @classmethod
    def of(cls, priority: int, weight: int) -> "VictimCost":
        """Read a weight."""
        return cls(priority, weight >> _RUNTIME, weight & (1 << _RUNTIME) - 1)


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """The victims of one node that a demand may have, and the node's room."""

    node: str
    victims: tuple[Victim, ...]
    groups: Mapping[str, VictimGroup] = field(default_factory=dict)
    """The groups that victims name."""
    left: Mapping[str, int] = field(default_factory=dict)
    """What the node has left of each resource that the demand's pods request, below zero if it is overcommitted."""
    allowance: Mapping[str, int] = field(default_factory=dict)
    """How much may go at most of what victims count, all of them together."""

    def mask_up_to(self, priority: int) -> int:
        """Return the victims of at most this priority."""
        return sum(1 << index for index, each in enumerate(self.victims) if each.priority <= priority)

    def closed(self, mask: int) -> int:
        """Return the victims that go with these: the rest of every group that is left with too few pods."""
        for group in self._broken(mask):
            for index, each in enumerate(self.victims):
                if each.group == group:
                    mask |= 1 << index
        return mask

    def weight(self, mask: int) -> int:
        """Return the cost of evicting these victims, and groups with them."""
        broken = self._broken(mask)
        single = [each for each in self.chosen(mask) if each.group not in broken]
        return sum(each.weight for each in single) + sum(self.groups[group].weight for group in broken)

    def allows(self, mask: int) -> bool:
        """Say whether with these victims, and groups with them, no more goes than may. Then so it is with fewer of them."""
        if not self.allowance:
            return True
        broken = self._broken(mask)
        going: Counter[str] = Counter()
        for each in self.chosen(mask):
            if each.group not in broken:
                going.update(each.counted)
        for group in broken:
            going.update(self.groups[group].counted)
        return all(amount <= self.allowance[key] for key, amount in going.items())

    def chosen(self, mask: int) -> tuple[Victim, ...]:
        """Return the victims of a mask."""
        return tuple(self.victims[index] for index in bits(mask))

    def broken_groups(self, mask: int) -> frozenset[str]:
        """Return the groups that are left with too few pods."""
        return frozenset(self._broken(mask))

    def _broken(self, mask: int) -> set[str]:
        if not self.groups:
            return set()
        gone: dict[str, int] = {}
        for index in bits(mask):
            victim = self.victims[index]
            if victim.group:
                gone[victim.group] = gone.get(victim.group, 0) + victim.pods
        return {group for group, pods in gone.items() if pods > self.groups[group].spare}


@dataclass(frozen=True, slots=True)
class VictimSet:
    """The victims to evict, and what the demand gets then."""

    node: str
    victims: tuple[Victim, ...]
    """All of this node, those included that go with a group."""
    groups: frozenset[str]
    """Groups that are evicted as a whole, with their pods on other nodes."""
    cost: VictimCost
    decision: Decision
    """The devices of the demand once the victims are gone."""
    proven: bool
    """Whether no cheaper set exists among the nodes that were looked at; else the search ended at its budget."""
