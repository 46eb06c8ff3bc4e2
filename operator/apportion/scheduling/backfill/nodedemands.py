"""NodeDemands: the demands of one head on single nodes, as a plan asks about them (`allocator.reservation.NodeDemands`).

In: demands that are placed together, what ends on nodes, the room there. Out: what to ask of a node, whether it has room after so many endings, and which nodes suit a
member beside those that are placed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from apportion.allocator.demand import Demand
from apportion.allocator.nodeanswers import COUNTED, EVERYWHERE, NodeAnswers
from apportion.cluster.snapshot import Snapshot
from apportion.dra.node import Resources
from apportion.scheduling.backfill.nodeendings import Endings
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.neighbours import are_apart, are_related, are_related_beyond_a_node
from apportion.scheduling.room.noderoom import unplaced
from apportion.scheduling.room.obstacles import NodeObstacles, Obstacles, holds_devices


@dataclass(slots=True)
class NodeDemands:
    """The demands of one head on single nodes, with the room that its pods have there."""

    demands: Sequence[WaitingDemand]
    possible: Sequence[Sequence[str]]
    """Nodes that could take the pods of each."""
    endings: Mapping[str, Endings]
    candidates: Candidates
    capacity: HostCapacity
    snapshot: Snapshot
    answers: NodeAnswers
    wanted: dict[int, Resources] = field(default_factory=dict)
    related: bool = field(init=False)
    """Whether pods may have to be apart: most ask nothing of their neighbours."""
    beyond: bool = field(init=False)
    """Whether pods on one node may decide who goes to another."""
    obstacles: Obstacles = field(init=False)
    """Pods on nodes that keep them off these until they end."""
    known: dict[str, NodeObstacles] = field(default_factory=dict)
    """Those of each node."""
    domain: frozenset[str] = frozenset()
    """The nodes on which they are planned now."""
    placed: dict[int, str] = field(default_factory=dict)
    """The node on which a member's pods are counted, where they may keep others off further nodes."""

    def __post_init__(self) -> None:
        """Look once at all pods."""
        pods = [pod for each in self.demands for pod in each.pods]
        self.related = are_related(pods)
        self.beyond = len(self.demands) > 1 and are_related_beyond_a_node(pods)
        self.obstacles = Obstacles(pods, self.candidates.neighbours)

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Count pods on nodes within a block only; those that a decision in the making has placed are counted nowhere else meanwhile."""
        counted = self.candidates.placed
        pods = [pod for each in self.demands for pod in each.pods] if self.related else []
        former = {pod.uid: node for pod in pods if (node := counted.place_of(pod)) is not None}
        for pod in pods:
            if pod.uid in former:
                counted.place(pod, None)
        try:
            yield
        finally:
            self._place({})
            for pod in pods:
                if pod.uid in former:
                    counted.place(pod, former[pod.uid])

    def nodes(self, member: int) -> Sequence[str]:
        """Return the nodes of the domain that could take a member's pods if nothing else ran there."""
        return [node for node in self.possible[member] if node in self.domain]

    def suiting(self, member: int, placed: Mapping[str, Sequence[int]]) -> Collection[str] | None:
        """Return the nodes that suit a member's pods beside those of the members `placed` on these nodes and on others; None: all."""
        if not self.beyond:
            return None
        where = {each: node for node, members in placed.items() for each in members}
        return self.answers.of(
            EVERYWHERE,
            (member, self.domain, *where.items()),
            partial(self._suiting, member, where),
            lambda _: COUNTED * len(self.capacity.nodes),
        )

    def _suiting(self, member: int, where: Mapping[int, str]) -> frozenset[str]:
        self._place(where)
        among = frozenset(self.nodes(member))
        return self.candidates.possible(self.demands[member], self.capacity, among, holds_devices)

    def _place(self, nodes: Mapping[int, str]) -> None:
        """Count the pods of these members on their nodes, and those of no others."""
        for member in self.placed.keys() - nodes.keys():
            del self.placed[member]
            for pod in self.demands[member].pods:
                self.candidates.placed.place(pod, None)
        for member, node in nodes.items():
            if self.placed.get(member) != node:
                self.placed[member] = node
                for pod in unplaced(self.demands[member], self.snapshot):
                    self.candidates.placed.place(pod, node)

    def of(self, member: int, node: str) -> Demand:
        """Return what to ask about the devices of a node."""
        return self.candidates.ask_on(self.demands[member], node)

    def has_room(self, member: int, node: str, ended: int, placed: Sequence[int]) -> bool:
        """Say whether a node has room for a member's pods after so many endings, beside the members `placed` there."""
        if placed and self.related:
            there = [pod for each in placed for pod in self.demands[each].pods]
            own, selects = self.demands[member].pods, self.snapshot.namespaces.selects
            if any(are_apart(pod, other, selects) for pod in own for other in there):
                return False
        if self._is_kept_off(member, node, ended):
            return False
        beside = [self._wanted(each) for each in placed]
        freed = self.endings[node].requests[:ended]
        return self.capacity.holds(node, self._wanted(member), beside, freed)

    def _is_kept_off(self, member: int, node: str, ended: int) -> bool:
        """Say whether pods on a node keep those of a member off it after so many endings."""
        wanted = self.obstacles.wanted(self.demands[member].pods)
        if not wanted:
            return False
        if node not in self.known:
            with self.candidates.placed.without(
                [pod for each in self.placed for pod in self.demands[each].pods]
            ):
                self.known[node] = self.obstacles.on(node)
        return self.known[node].stay(wanted, frozenset().union(*self.endings[node].pods[:ended]))

    def _wanted(self, member: int) -> Resources:
        if member not in self.wanted:
            self.wanted[member] = total(unplaced(self.demands[member], self.snapshot))
        return self.wanted[member]
