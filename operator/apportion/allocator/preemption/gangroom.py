"""GangRoom: what to ask about the members of a gang on nodes from which victims go, with the room that their pods have there.

In: members, what each node has left, what victims give back. Out: the demand of a member on the nodes that could take its pods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.allocator.demand import Demand
from apportion.allocator.gang.members import Member
from apportion.allocator.preemption.victims import NodeVictims


@dataclass(frozen=True, slots=True)
class GangMember:
    """One member of a gang for which victims may go."""

    demand: Demand
    """On the nodes that suit its pods if nothing else takes room there."""
    wanted: Mapping[str, int] = field(default_factory=dict)
    """Resources that its pods request of a node, `pods` included."""
    member: Member = field(default_factory=Member)


class GangRoom:
    """The demands of the members (`allocator.gang.members.MemberDemands`)."""

    def __init__(self, members: Sequence[GangMember], nodes: Mapping[str, NodeVictims]) -> None:
        self._members = members
        self._nodes = nodes
        self._within: frozenset[str] | None = None
        self._left: dict[str, dict[str, int]] = {}
        self._served: dict[int, str] = {}
        self.asked = 0
        """How often something was asked about a member."""

    def begin(self, within: frozenset[str] | None = None) -> None:
        """Start with nobody served and nobody gone; `within`: the nodes that count (None: all)."""
        self._within = within
        self._left = {name: dict(each.left) for name, each in self._nodes.items()}
        self._served.clear()

    def free(self, node: str, amounts: Mapping[str, int], sign: int) -> None:
        """Count what a victim gives back (1), or gives back no more (-1)."""
        left = self._left[node]
        for name, amount in amounts.items():
            left[name] = left.get(name, 0) + sign * amount

    def left(self, node: str) -> Mapping[str, int]:
        """Return what a node has left."""
        return self._left[node]

    def wanted(self, member: int) -> Mapping[str, int]:
        """Return what the pods of a member request."""
        return self._members[member].wanted

    def suiting(self, member: int) -> frozenset[str]:
        """Return the nodes that could take a member's pods if enough of their room were free."""
        nodes = self._members[member].demand.nodes
        found = frozenset(self._nodes) if nodes is None else nodes & self._nodes.keys()
        return found if self._within is None else found & self._within

    def of(self, member: int) -> Demand | None:
        """Return a member's demand; None: no node has room for its pods."""
        self.asked += 1
        nodes = frozenset(name for name in self.suiting(member) if self.room(member, name))
        return replace(self._members[member].demand, nodes=nodes, host=None) if nodes else None

    def serve(self, member: int, node: str) -> None:
        """Count the pods of a member on the node that serves it."""
        self._served[member] = node
        self._take(member, node, 1)

    def release(self, member: int) -> None:
        """Count the pods of a served member no longer."""
        self._take(member, self._served.pop(member), -1)

    def room(self, member: int, node: str) -> int:
        """Return for how many members like this one a node has room."""
        left = self._left.get(node)
        if left is None:
            return 0
        most = len(self._members)
        return min([max(0, left.get(name, 0)) // each for name, each in self._wanted(member)], default=most)

    def awaits(self, _member: int) -> bool:
        """Return no: neighbours are not looked at."""
        return False

    def lost(self) -> list[int]:
        """Return nobody: nothing else changes."""
        return []

    def _wanted(self, member: int) -> list[tuple[str, int]]:
        return [(name, amount) for name, amount in self._members[member].wanted.items() if amount]

    def _take(self, member: int, node: str, sign: int) -> None:
        left = self._left[node]
        for name, amount in self._wanted(member):
            left[name] = left.get(name, 0) - sign * amount
