"""GangRoom: what to ask about the members of a gang on nodes from which victims go, with the room that their pods have there.

In: members, what each node has left, what victims give back. Out: the demand of a member on the nodes that could take its pods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

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


class Neighbours(Protocol):
    """The nodes that members leave each other: their pods may have to keep apart, be spread, or need company."""

    def nodes(self, member: int) -> frozenset[str]:
        """Return the nodes that suit a member's pods beside those of the members that are placed."""

    def awaits(self, member: int) -> bool:
        """Say whether a member may have a node only once others have theirs."""

    def place(self, member: int, node: str | None) -> None:
        """Count the pods of a member on a node; None: no longer."""


class GangRoom:
    """The demands of the members (`allocator.gang.members.MemberDemands`)."""

    def __init__(
        self,
        members: Sequence[GangMember],
        nodes: Mapping[str, NodeVictims],
        neighbours: Neighbours | None = None,
    ) -> None:
        """`neighbours`: None where no pod asks anything of its neighbours, as most do not."""
        self._members = members
        self._nodes = nodes
        self._neighbours = neighbours
        self._within: frozenset[str] | None = None
        self._left: dict[str, dict[str, int]] = {}
        self._served: dict[int, str] = {}
        self._paused = False
        self.asked = 0
        """How often something was asked about a member."""

    def begin(self, within: frozenset[str] | None = None) -> None:
        """Start with nobody served and nobody gone; `within`: the nodes that count (None: all)."""
        self._within = within
        self._left = {name: dict(each.left) for name, each in self._nodes.items()}
        self._served.clear()

    def suspend(self) -> None:
        """Count no pods beside each other until `resume`; for ever, if that is not called."""
        if self._neighbours is not None:
            for member in self._served:
                self._neighbours.place(member, None)
        self._paused = True

    def resume(self) -> None:
        """Undo `suspend`."""
        self._paused = False
        if self._neighbours is not None:
            for member, node in self._served.items():
                self._neighbours.place(member, node)

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
        nodes = (
            self._members[member].demand.nodes if self._neighbours is None else self._neighbours.nodes(member)
        )
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
        if self._neighbours is not None:
            self._neighbours.place(member, node)

    def release(self, member: int) -> None:
        """Count the pods of a served member no longer."""
        self._take(member, self._served.pop(member), -1)
        if self._neighbours is not None and not self._paused:
            self._neighbours.place(member, None)

    def room(self, member: int, node: str) -> int:
        """Return for how many members like this one a node has room."""
        left = self._left.get(node)
        if left is None:
            return 0
        most = len(self._members)
        return min([max(0, left.get(name, 0)) // each for name, each in self._wanted(member)], default=most)

    def awaits(self, member: int) -> bool:
        """Say whether a member may have a node only once others have theirs: its pods need company, or are spread."""
        return self._neighbours is not None and self._neighbours.awaits(member)

    def lost(self) -> list[int]:
        """Return nobody: nothing else changes."""
        return []

    def _wanted(self, member: int) -> list[tuple[str, int]]:
        return [(name, amount) for name, amount in self._members[member].wanted.items() if amount]

    def _take(self, member: int, node: str, sign: int) -> None:
        left = self._left[node]
        for name, amount in self._wanted(member):
            left[name] = left.get(name, 0) - sign * amount
