"""Candidates: the nodes where a demand could go, before devices are looked at.

In: a demand, the room on nodes, what ties and what excludes. Out: node names, and how many nodes each reason ruled out.
"""

from collections.abc import Mapping

from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.lingering import Lingering
from apportion.scheduling.room import Room
from apportion.scheduling.waiting import Waiting


def room_of(snapshot: Snapshot) -> Room:
    """Return the room on all nodes: bound pods count, and those that an allocation sends there."""
    room = Room(snapshot.nodes, snapshot.pod_index.load)
    for pod in snapshot.pods_of(snapshot.pod_index.unbound):
        node = promised(pod, snapshot)
        if node is not None:
            room.take(node, pod)
    return room


def promised(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the node to which an allocation, assumed ones included, sends an unbound pod."""
    for entry in pod.claims:
        claim = snapshot.claim(pod.namespace, entry.claim) if entry.claim else None
        allocation = snapshot.allocation(claim) if claim is not None else None
        if allocation is not None and allocation.node is not None:
            return allocation.node
    return None


def coming(demand: Waiting, snapshot: Snapshot) -> list[Pod]:
    """Return the demand's pods that are not on a node or on their way to one."""
    return [pod for pod in demand.pods if pod.node is None and promised(pod, snapshot) is None]


def candidates(
    demand: Waiting, room: Room, snapshot: Snapshot, exclusions: Exclusions, lingering: Lingering
) -> tuple[frozenset[str], Mapping[str, int]]:
    """Return the nodes where the demand's pods could go, and what rules the others out."""
    unbound = [pod for pod in demand.pods if pod.node is None]
    fitting, against = room.fitting(coming(demand, snapshot))
    reasons = dict(against)
    allowed = fitting
    for pod in demand.pods:
        if pod.node is not None:
            allowed &= {pod.node}
    for claim in demand.tied:
        allocation = snapshot.allocation(claim)
        selector = allocation.node_selector if allocation else None
        if selector is not None:
            allowed = frozenset(name for name in allowed if selector.matches(name, room.nodes[name].labels))
            if not allowed:
                reasons[f"claim {claim.key} is allocated elsewhere"] = len(room.nodes)
    for claim in demand.claims:
        late = lingering.nodes(claim.uid) & allowed
        if late:
            reasons[f"still has claim {claim.key} prepared: containers of its former pod may run"] = len(late)
            allowed -= late
    avoid = exclusions.nodes([pod.uid for pod in unbound], snapshot.node) & allowed
    if avoid:
        reasons["kube-scheduler refused the node before"] = len(avoid)
    return allowed - avoid if avoid else allowed, reasons


def no_node(reasons: Mapping[str, int]) -> str:
    """Say why no node is left."""
    parts = [f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]
    return "no node can take the pod: " + ("; ".join(parts) if parts else "there are no nodes")
