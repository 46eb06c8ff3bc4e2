"""NodeRoom: keeps the capacity of nodes in step with the snapshot.

In: the snapshot's changes of nodes and pods. Out: a `HostCapacity` in which bound pods count, those that an allocation sends to a node, and those that kube-scheduler
has nominated for one.
A claim that thousands of pods share changes them all, so they are read in steps.
"""

from collections.abc import Iterator

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.changes import most_changes
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand, is_others, is_usable, ready
from apportion.scheduling.pace import Changed
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.sharing import fits_alone


class NodeRoom:
    """Follows nodes and pods."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.capacity = HostCapacity((), snapshot.pod_index.load, snapshot.pod_index.removable)
        self._hosts = self._pods = -1
        """How far the changes of nodes and pods were read."""
        self._managed = snapshot.managed
        """By which pods were looked at."""
        self._changed = Changed[str]()
        """Pods, by UID."""
        self._sent: dict[str, dict[str, None]] = {}
        """Pods (UIDs) that an allocation sends to a node, by node, whether it could take them or not."""
        self._sent_to: dict[str, str] = {}
        """The node of each."""
        self.doubted: ChangeLog[str] = ChangeLog()
        """Pods (UIDs) whose node changed, so that it could take them now, or cannot any more."""

    def steps(self) -> Iterator[None]:
        """Look at the nodes that changed, and at the pods; yields where others may run."""
        snapshot, capacity = self._snapshot, self.capacity
        capacity.back(snapshot.managed.extended_resources.keys())
        self._hosts, hosts = snapshot.changes.hosts.since(self._hosts)
        nodes = (node.name for node in snapshot.nodes.values())
        doubted: list[str] = []
        for name in {*nodes, *capacity.nodes, *self._sent} if hosts is None else {*hosts}:
            capacity.put(name, snapshot.node(name))
            doubted += self._sent.get(name, ())
        self._pods, pods = snapshot.changes.pods.since(self._pods)
        if pods is None or self._managed is not snapshot.managed:
            self._managed = snapshot.managed
            doubted = [*snapshot.pod_index.unbound, *capacity.promised, *self._sent_to]
            pods = [*doubted, *snapshot.pod_index.nominated, *capacity.nominated.pods]
        for uid in doubted:
            self.doubted.add(uid, most=most_changes(len(snapshot.pods)))
        yield from self._changed.steps((*pods, *doubted), self._look)

    def _look(self, uid: str) -> None:
        snapshot = self._snapshot
        pod, is_unbound = snapshot.pods.get(uid), uid in snapshot.pod_index.unbound
        nominated = _nominated_for(pod, snapshot) if pod is not None else None
        for name in self.capacity.nominated.put(pod, uid, nominated):
            self.capacity.put(name, snapshot.node(name))
        node = _sent_to(pod, snapshot) if pod is not None and is_unbound else None
        former = self._sent_to.pop(uid, None)
        if former is not None:
            del self._sent[former][uid]
            if not self._sent[former]:
                del self._sent[former]
        if node is not None:
            self._sent_to[uid] = node
            self._sent.setdefault(node, {})[uid] = None
        if pod is not None and node is not None and fits_alone(pod, node, snapshot):
            self.capacity.take(node, pod)
            return
        if is_unbound and uid in self.capacity.promised:
            # Nothing else lets in those that were refused for the room that it leaves.
            snapshot.retry_epoch += 1
        self.capacity.drop(uid)


def promised_node(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the node to which an allocation, assumed ones included, sends an unbound pod, if it could take it."""
    node = _sent_to(pod, snapshot)
    # A pod that shares its claims with others may not fit on the node that was chosen for them.
    return node if node is not None and fits_alone(pod, node, snapshot) else None


def unplaced(demand: WaitingDemand, snapshot: Snapshot) -> list[Pod]:
    """Return the demand's pods that are not bound and that no allocation sends to a node."""
    return [pod for pod in demand.pods if pod.node is None and promised_node(pod, snapshot) is None]


def _nominated_for(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the node of which kube-scheduler keeps room for a pod. One with claims of ours takes room where its allocation sends it."""
    if pod.nominated is None or pod.finished or pod.scheduler not in snapshot.schedulers:
        return None
    claims = snapshot.named_claims(pod)
    return pod.nominated if all(each is not None and is_others(each, snapshot) for each in claims) else None


def _sent_to(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the node of a pod that nothing but its scheduler keeps from it; who cannot start takes no room that others could have."""
    found: str | None = None
    if not ready(pod) or pod.scheduler not in snapshot.schedulers:
        return None
    for claim in snapshot.named_claims(pod):
        if claim is None or not is_usable(claim, pod):
            return None
        allocation = snapshot.allocation(claim)
        if allocation is not None:
            found = found or allocation.node
        elif not is_others(claim, snapshot):
            return None
    return found
