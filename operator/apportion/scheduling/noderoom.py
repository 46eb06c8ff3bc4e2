"""NodeRoom: keeps the capacity of nodes in step with the snapshot.

In: the snapshot's changes of nodes and pods. Out: a `HostCapacity` in which bound pods count, and those that an allocation sends to a node.
A claim that thousands of pods share changes them all, so they are read in steps.
"""

from collections.abc import Iterator

from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.pace import Changed
from apportion.scheduling.sharing import fits_alone


class NodeRoom:
    """Follows nodes and pods."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.capacity = HostCapacity((), snapshot.pod_index.load, snapshot.pod_index.removable)
        self._hosts = self._pods = -1
        """How far the changes of nodes and pods were read."""
        self._changed = Changed[str]()
        """Pods, by UID."""

    def steps(self) -> Iterator[None]:
        """Look at the nodes that changed, and at the pods; yields where others may run."""
        snapshot, capacity = self._snapshot, self.capacity
        capacity.back(snapshot.managed.extended_resources.keys())
        self._hosts, hosts = snapshot.changes.hosts.since(self._hosts)
        nodes = (node.name for node in snapshot.nodes.values())
        for name in {*nodes, *capacity.nodes} if hosts is None else {*hosts}:
            capacity.put(name, snapshot.node(name))
        self._pods, pods = snapshot.changes.pods.since(self._pods)
        if pods is None:
            pods = (*snapshot.pod_index.unbound, *capacity.promised)
        yield from self._changed.steps(pods, self._look)

    def _look(self, uid: str) -> None:
        snapshot = self._snapshot
        pod, is_unbound = snapshot.pods.get(uid), uid in snapshot.pod_index.unbound
        node = promised_node(pod, snapshot) if pod is not None and is_unbound else None
        if pod is not None and node is not None:
            self.capacity.take(node, pod)
        else:
            self.capacity.drop(uid)


def promised_node(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the node to which an allocation, assumed ones included, sends an unbound pod, if it could take it."""
    for claim in snapshot.named_claims(pod):
        allocation = snapshot.allocation(claim) if claim is not None else None
        if allocation is not None and allocation.node is not None:
            # A pod that shares its claims with others may not fit on the node that was chosen for them.
            return allocation.node if fits_alone(pod, allocation.node, snapshot) else None
    return None
