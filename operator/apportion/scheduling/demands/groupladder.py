"""The ladder of a group: how close together the nodes of its pods have to be, and where some of them are already.

In: a group, the policy of its claims, what its pods or its PodGroup say. Out: the allocator's GroupLadder.
"""

from apportion.allocator.gang.domains import GroupLadder, GroupRung
from apportion.api.policy import AllocationPolicySpec
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.demands.groups import WaitingGroup


def ladder_of(group: WaitingGroup, policy: AllocationPolicySpec, snapshot: Snapshot) -> GroupLadder:
    """Return the policy's ladder with the level that the group asks for.

    A level that is required keeps the policy's closer ones; one that is preferred begins there. A label that the policy does not name counts as wider
    than all of its labels where it is required, and stands for them where it is preferred. What the policy requires stays required.
    """
    rungs = tuple(GroupRung(rung.node_label, rung.required) for rung in policy.group_ladder)
    asked = group.pod_group.topology
    if asked is not None:
        own = GroupRung(asked.label, asked.required)
        closer = tuple(rung for rung in rungs if rung.label != asked.label)
        at = next((number for number, rung in enumerate(rungs) if rung.label == asked.label), None)
        if asked.required:
            number = len(rungs) if at is None else at
            rungs = (*closer[:number], own, *closer[number:])
        else:
            wider = rungs[at:] if at is not None else ()
            before = tuple(rung for rung in rungs if rung.required and rung not in wider)
            rungs = (*before, *wider) if at is not None else (own, *before)
    if not rungs:
        return GroupLadder()
    waiting = {pod.uid for pod in group.pods}
    occupied = {_node(pod.uid, snapshot) for pod in group.pod_group.pods if pod.uid not in waiting}
    return GroupLadder(rungs, frozenset(node for node in occupied if node is not None))


def _node(uid: str, snapshot: Snapshot) -> str | None:
    """Return the node of a pod of the group, bound or allocated; a group is decided in steps, so that the pod may be gone."""
    pod = snapshot.pods.get(uid)
    if pod is None:
        return None
    if pod.node is not None:
        return pod.node
    for claim in snapshot.named_claims(pod):
        allocation = snapshot.allocation(claim) if claim is not None else None
        if allocation is not None and allocation.node is not None:
            return allocation.node
    return None
