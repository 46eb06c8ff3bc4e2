"""What a pod asks of its node, however full that is: cordon, taints, nodeSelector, required node affinity.

In: a node and a pod. Out: the first of these that keeps the pod off the node, as kube-scheduler's filters of these names see it.
"""

from collections.abc import Callable

from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.dra.taint import Taint, untolerated

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def against(
    node: Node,
    pod: Pod,
    allows: Callable[[Node], bool] | None = None,
    left: Callable[[tuple[Taint, ...]], Taint | None] | None = None,
) -> str | None:
    """Return why the node can never take the pod, whatever else runs there; None when it could.

    `allows` says whether the pod's required node affinity does, `left` which taint its tolerations leave, where somebody knows.
    """
    left = left or (lambda taints: untolerated(taints, pod.tolerations))
    if node.unschedulable and left((_UNSCHEDULABLE,)):
        return "unschedulable"
    taint = left(node.taints)
    if taint is not None:
        return f"taint {taint.key}"
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return "nodeSelector"
    if pod.affinity is None:
        return None
    allowed = allows(node) if allows else any(term.matches(node.name, node.labels) for term in pod.affinity)
    return None if allowed else "node affinity"
