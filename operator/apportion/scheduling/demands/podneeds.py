"""What pods need of a node beside devices: resources, and what else `HostCapacity` looks at.

In: nodes and pods. Out: amounts, and the resource of which a node has too little.
"""

from collections.abc import Collection, Sequence

from apportion.allocator.facts.host import HostResources
from apportion.dra.excess import has_many_needs
from apportion.dra.node import Node, Resources
from apportion.dra.pod import Pod


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


def copies(node: Node, wanted: Resources, *used: Resources, backed: Collection[str] = ()) -> int:
    """Return how often a node has what is wanted (`total`) beside what is used; `backed` as `lacking` has it."""
    return min(
        max(0, node.allocatable.get(resource, 0) - sum(each.get(resource, 0) for each in used)) // amount
        for resource, amount in wanted.items()
        if amount and not is_allocated(resource, node, backed)
    )


def is_allocated(resource: str, node: Node, backed: Collection[str]) -> bool:
    """Say whether kube-scheduler allocates devices for this resource on a node, instead of counting it.

    It does where a DeviceClass is behind the resource and no device plugin offers it (`filterExtendedResources`).
    """
    return resource in backed and not node.allocatable.get(resource, 0)


def constraints_of(pod: Pod) -> object:
    """Return all that `HostCapacity` looks at in a pod; something that no other pod has, where that is too much."""
    if has_many_needs(pod):
        return pod.uid
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
