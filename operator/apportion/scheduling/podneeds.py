"""What pods need of a node beside devices: resources, and what a node must and must not have.

In: nodes and pods. Out: amounts, and the reason why a node cannot take a pod.
"""

from collections.abc import Collection, Sequence

from apportion.allocator.facts.host import HostResources
from apportion.dra.node import Node, Resources
from apportion.dra.pod import Pod
from apportion.dra.taint import Taint, untolerated

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def lacking(node: Node, wanted: Resources, *used: Resources, backed: Collection[str] = ()) -> str | None:
    """Return a resource of which a node has too little beside what is used; None when it has enough of each.

    `backed`: the extended resources behind which there is a DeviceClass.
    """
    for resource, amount in wanted.items():
        if amount and sum(each.get(resource, 0) for each in used) + amount > node.allocatable.get(
            resource, 0
        ):
            if is_allocated(resource, node, backed):
                continue
            return resource
    return None


def is_allocated(resource: str, node: Node, backed: Collection[str]) -> bool:
    """Say whether kube-scheduler allocates devices for this resource on a node, instead of counting it.

    It does where a DeviceClass is behind the resource and no device plugin offers it (`filterExtendedResources`).
    """
    return resource in backed and not node.allocatable.get(resource, 0)


def against(node: Node, pod: Pod) -> str | None:
    """Return why the node can never take the pod, whatever else runs there; None when it could."""
    if node.unschedulable and untolerated((_UNSCHEDULABLE,), pod.tolerations):
        return "unschedulable"
    taint = untolerated(node.taints, pod.tolerations)
    if taint is not None:
        return f"taint {taint.key}"
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return "nodeSelector"
    if pod.affinity is not None and not any(term.matches(node.name, node.labels) for term in pod.affinity):
        return "node affinity"
    return None


def constraints_of(pod: Pod) -> object:
    """Return all that `HostCapacity` looks at in a pod."""
    return (
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.node_selector.items())),
        pod.affinity,
        pod.tolerations,
    )


def requested(pods: Sequence[Pod]) -> HostResources:
    """Return the cpu and memory that the pods request together."""
    return HostResources.of(total(pods))


def total(pods: Sequence[Pod]) -> dict[str, int]:
    """Return what the pods request together."""
    wanted: dict[str, int] = {"pods": len(pods)}
    for pod in pods:
        for name, amount in pod.requests.items():
            wanted[name] = wanted.get(name, 0) + amount
    return wanted
