"""Consumers: a claim that is reserved for its pod together with its allocation, and what a reservation says (ADR 23).

In: the snapshot. Out: the pod for which a claim is reserved ahead; whether a pod may have started with a claim's devices.
kube-scheduler reserves a claim just before it binds a pod. Where it finds it reserved for that pod it writes nothing (dynamicresources,
`PreBind`), so that such a reservation alone does not show that a scheduler has taken the pod.
"""

from collections.abc import Sequence

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import PROTECTION_FINALIZER, Claim
from apportion.dra.pod import Pod


def user_ahead(claim: Claim, pods: Sequence[Pod], snapshot: Snapshot) -> Pod | None:
    """Return the pod for which a claim is reserved together with its allocation; None: kube-scheduler reserves it.

    The claim was made for the one pod of the demand from a template, nobody else names it, and the pod waits behind our gate alone,
    so that nobody looks at it yet. A group may have to give back all that it has, so its pods are reserved for later.
    """
    if len(pods) != 1 or claim.owner_pod != pods[0].uid:
        return None
    pod = snapshot.pods.get(pods[0].uid)
    if pod is None or pod.gates != (GATE,) or pod.node is not None or pod.deleting or pod.group is not None:
        return None
    return pod if [user.uid for user in snapshot.users(claim)] == [pod.uid] else None


def unbound_user(claim: Claim, snapshot: Snapshot) -> Pod | None:
    """Return the pod for which alone a claim is reserved, if it was made for it and the pod is live and not bound."""
    if len(claim.reserved_for) != 1 or claim.owner_pod != claim.reserved_for[0].uid:
        return None
    pod = snapshot.pods.get(claim.owner_pod)
    return pod if pod is not None and pod.node is None and not pod.finished and not pod.deleting else None


def is_out_of_reach(claim: Claim, snapshot: Snapshot) -> bool:
    """Say whether the pod that a claim was made for is bound to another node than that of its devices: no kubelet can prepare them for it."""
    pod, node = snapshot.pods.get(claim.owner_pod or ""), claim.allocation.node if claim.allocation else None
    others = [user for user in claim.reserved_for if user.uid != claim.owner_pod]
    return bool(pod and node and pod.node and pod.node != node and not pod.finished and not others)


def is_taken_up(claim: Claim, snapshot: Snapshot) -> bool:
    """Say whether a pod may have started with a claim's devices, or may be bound by them: it is reserved, not only for a gated pod.

    The API server binds no pod that has a scheduling gate.
    """
    if not claim.reserved_for:
        return False
    pod = unbound_user(claim, snapshot)
    return pod is None or not pod.gates


def is_freed_by_its_pods(claim: Claim) -> bool:
    """Say whether a claim loses its devices when the last pod that has reserved it is over: controller-manager takes them by its own finalizer (`syncClaim`).

    A claim that keeps its devices between pods has another finalizer.
    """
    return PROTECTION_FINALIZER in claim.finalizers
