"""MemberDemands: what to ask of the allocator about the pods of a group, one demand after another.

In: a group's waiting demands, the capacity of nodes. Out: the demand of each, beside the pods of those that are served before it, which
are counted on their nodes for everybody; and those whose node cannot take them any more, because others changed it.
"""

from collections.abc import Collection, Sequence

from apportion.allocator.demand import Demand
from apportion.cluster.snapshot import Snapshot
from apportion.dra.nodeconstraints import against
from apportion.dra.pod import Pod
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.podneeds import copies, lacking, total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.neighbours import are_related
from apportion.scheduling.room.noderoom import unplaced


class MemberDemands:
    """The demands of a group's members (`allocator.gang.members.MemberDemands`)."""

    def __init__(
        self,
        demands: Sequence[WaitingDemand],
        candidates: Candidates,
        snapshot: Snapshot,
        capacity: HostCapacity,
    ) -> None:
        self._demands = demands
        self._candidates = candidates
        self._snapshot = snapshot
        self._capacity = capacity
        self._placed: dict[str, dict[int, list[Pod]]] = {}
        """The pods of served members, by node and member."""
        self._nodes: dict[int, str] = {}
        pods = [pod for each in demands for pod in each.pods]
        exclusive = snapshot.volumes.exclusive
        self._related = are_related(pods) or any(exclusive(pod) for pod in pods if pod.volumes)
        """Whether pods may be kept from a node by others of the group: most ask nothing of their neighbours."""
        self._seen = snapshot.changes.hosts.end

    def of(self, member: int) -> Demand | None:
        """Return a member's demand; None: no node fits its pods."""
        asked = self._candidates.ask(self._demands[member], self._capacity)
        return None if isinstance(asked, str) else asked

    def serve(self, member: int, node: str) -> None:
        """Count the pods of a member on the node that serves it."""
        pods = unplaced(self._demands[member], self._snapshot)
        self._nodes[member] = node
        self._placed.setdefault(node, {})[member] = pods
        for pod in pods:
            self._capacity.take(node, pod)
            if self._related:
                self._candidates.placed.place(pod, node)

    def release(self, member: int) -> None:
        """Count the pods of a served member no longer."""
        node = self._nodes.pop(member)
        members = self._placed[node]
        for pod in members.pop(member):
            self._capacity.drop(pod.uid)
            if self._related:
                self._candidates.placed.place(pod, None)
        if not members:
            del self._placed[node]

    def room(self, member: int, node: str) -> int:
        """Return how often the pods of a member would fit on a node, beside all that is counted there."""
        pods = unplaced(self._demands[member], self._snapshot)
        found = self._capacity.nodes.get(node)
        if not pods:
            return len(self._demands)
        if found is None or any(against(found, pod) is not None for pod in pods):
            return 0
        return copies(found, total(pods), *self._capacity.used(node), backed=self._backed)

    def awaits(self, member: int) -> bool:
        """Say whether a member may have a node only once others have theirs: its pods need company, or are spread."""
        return any(pod.relations.affinity or pod.relations.spread for pod in self._demands[member].pods)

    def lost(self) -> list[int]:
        """Return the served members whose nodes cannot take their pods any more."""
        self._seen, changed = self._snapshot.changes.hosts.since(self._seen)
        if changed is not None and not changed:
            return []
        self._candidates.capacity()  # brings the room of the nodes up to date
        nodes = self._placed.keys() if changed is None else self._placed.keys() & changed
        return [
            member
            for node in nodes
            for member, pods in self._placed[node].items()
            if not self._keeps(node, pods)
        ]

    def _keeps(self, name: str, pods: Sequence[Pod]) -> bool:
        """Say whether a node can still take these pods, which are counted there, and all others that are."""
        node, (load, promised) = self._capacity.nodes.get(name), self._capacity.used(name)
        return (
            node is not None
            and self._capacity.promised >= {pod.uid for pod in pods}
            and all(against(node, pod) is None for pod in pods)
            and lacking(node, promised, load, backed=self._backed) is None
        )

    @property
    def _backed(self) -> Collection[str]:
        return self._snapshot.managed.extended_resources
