"""OpenNodes: the nodes that pods can come to.

In: the snapshot. Out: their names, and which of them changed. One that is cordoned or gone, or whose kubelet does not answer, serves no
pod by what is kept warm there. A taint that pods may tolerate closes no node.
"""

from typing import Final

from apportion.cluster.snapshot import Snapshot
from apportion.dra.node import Node

_DEAD: Final = frozenset(
    f"node.kubernetes.io/{each}" for each in ("not-ready", "unreachable", "out-of-service")
)
"""Well-known taints of a node whose kubelet does not answer (kubernetes.io/docs/reference/labels-annotations-taints)."""


class OpenNodes:
    """Their names."""

    def __init__(self) -> None:
        self._epoch = -1
        self._names: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        """Say whether pods can come to a node."""
        return name in self._names

    def follow(self, snapshot: Snapshot) -> tuple[frozenset[str], frozenset[str]]:
        """Take in the nodes; returns those that opened and those that closed."""
        if self._epoch == snapshot.node_epoch:
            return frozenset(), frozenset()
        self._epoch, before = snapshot.node_epoch, self._names
        self._names = frozenset(node.name for node in snapshot.nodes.values() if _is_open(node))
        return self._names - before, before - self._names


def _is_open(node: Node) -> bool:
    return not (node.unschedulable or any(taint.key in _DEAD for taint in node.taints))
