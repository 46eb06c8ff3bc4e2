"""SeveralNodes: victims of several nodes together: what goes with some of them, what it costs, whether so much may go.

In: the victims of each node, which of them go. Out: the rest of groups that are left with too few pods, on all of these nodes; costs; and what
is left to choose from on one node.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from apportion.allocator.preemption.victims import LEAVING, NodeVictims, Victim, VictimCost, VictimGroup

Place: TypeAlias = tuple[str, int]
"""A victim: its node, and its position in `NodeVictims.victims`."""
Going: TypeAlias = frozenset[Place]


class SeveralNodes:
    """The victims of several nodes."""

    def __init__(self, nodes: Sequence[NodeVictims]) -> None:
        self.nodes: Mapping[str, NodeVictims] = {each.node: each for each in nodes}
        self._groups = {name: group for each in nodes for name, group in each.groups.items()}
        self._of_group: dict[str, set[Place]] = {}
        for place, victim in self._rows():
            if victim.group:
                self._of_group.setdefault(victim.group, set()).add(place)

    @property
    def all(self) -> Going:
        """Return all victims."""
        return frozenset(place for place, _ in self._rows())

    def victim(self, place: Place) -> Victim:
        """Return a victim."""
        return self.nodes[place[0]].victims[place[1]]

    def of_group(self, group: str) -> Going:
        """Return the victims of a group."""
        return frozenset(self._of_group.get(group, ()))

    def spare(self, group: str) -> int:
        """Return how many pods of a group may go before all of it does."""
        return self._groups[group].spare

    def broken(self, going: Going) -> frozenset[str]:
        """Return the groups that are left with too few pods."""
        gone = self._gone(going)
        return frozenset(group for group, pods in gone.items() if pods > self._groups[group].spare)

    def closed(self, going: Going) -> Going:
        """Return the victims that go with these: the rest of every group that is left with too few pods."""
        return going.union(*(self._of_group[group] for group in self.broken(going)))

    def cost(self, going: Going) -> VictimCost:
        """Return what it costs that these go, and groups with them."""
        broken = self.broken(going)
        single = [each for each in map(self.victim, going) if each.group not in broken]
        weight = sum(each.weight for each in single) + sum(self._groups[group].weight for group in broken)
        priority = max([self.victim(place).priority for place in self.closed(going)], default=LEAVING)
        return VictimCost.of(priority, weight)

    def allows(self, going: Going) -> bool:
        """Say whether with these, and groups with them, no more goes than may."""
        return all(amount >= 0 for amount in self._allowance(going).values())

    def left(self, node: str, going: Going, room: Mapping[str, int]) -> tuple[NodeVictims, list[int]]:
        """Return the victims of a node that stay when these go, with their positions among all; `room`: what the node has left then."""
        found = self.nodes[node]
        gone = self.closed(going)
        at = [index for index in range(len(found.victims)) if (node, index) not in gone]
        groups = {name: self._rest(name, going) for name in found.groups}
        victims = tuple(found.victims[index] for index in at)
        made = replace(found, victims=victims, groups=groups, left=room, allowance=self._allowance(going))
        return made, at

    def dearest_first(self, going: Going) -> list[Place]:
        """Return victims in the order in which they had better stay."""

        def rank(place: Place) -> tuple[int, int, str]:
            victim = self.victim(place)
            return -victim.priority, -victim.weight, victim.key

        return sorted(going, key=rank)

    def _rows(self) -> list[tuple[Place, Victim]]:
        return [
            ((name, index), victim)
            for name, each in self.nodes.items()
            for index, victim in enumerate(each.victims)
        ]

    def _gone(self, going: Going) -> Counter[str]:
        """Return how many pods of each group go."""
        gone: Counter[str] = Counter()
        for victim in map(self.victim, going):
            if victim.group:
                gone[victim.group] += victim.pods
        return gone

    def _rest(self, name: str, going: Going) -> VictimGroup:
        """Return a group without those of its pods that go."""
        group = self._groups[name]
        gone = [self.victim(place) for place in going & self._of_group.get(name, set())]
        if not gone:
            return group
        pods = sum(each.pods for each in gone)
        counted = Counter(group.counted)
        for each in gone:
            counted.subtract(each.counted)
        return VictimGroup(
            max(0, group.spare - pods),
            max(0, group.pods - pods),
            max(0, group.lost - sum(each.lost for each in gone)),
            dict(+counted),
        )

    def _allowance(self, going: Going) -> dict[str, int]:
        """Return how much may go beside these."""
        left = Counter({key: most for each in self.nodes.values() for key, most in each.allowance.items()})
        broken = self.broken(going)
        for victim in map(self.victim, going):
            if victim.group not in broken:
                left.subtract(victim.counted)
        for group in broken:
            left.subtract(self._groups[group].counted)
        return dict(left)
