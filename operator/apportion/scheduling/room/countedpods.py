"""CountedPods: the pods on nodes that match what somebody asks for.

In: pods that match, as they come and go. Out: they by node; how many they are.
"""

from dataclasses import dataclass, field

from apportion.dra.podrelations import PodSelection
from apportion.dra.selectionindex import Entry, Matched


@dataclass(slots=True)
class CountedPods:
    """Pods that match, by node."""

    means: Matched
    """What matches: what is asked, with the namespaces that it chooses by labels."""
    entries: tuple[Entry, ...]
    """Under what all that match are found."""
    complete: bool = False
    """Whether all were looked at."""
    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    """Pods (UIDs) by node."""

    def put(self, uid: str, node: str) -> int:
        """Count a pod on a node; returns how many more match."""
        there = self.nodes.setdefault(node, {})
        before = len(there)
        there[uid] = None
        return len(there) - before

    def drop(self, uid: str, node: str) -> int:
        """Count a pod no longer that is on a node; returns how many fewer match."""
        there = self.nodes.get(node, {})
        if uid not in there:
            return 0
        del there[uid]
        if not there:
            del self.nodes[node]
        return 1


def chooses(asked: Matched) -> bool:
    """Say whether namespaces are chosen by labels."""
    return isinstance(asked, PodSelection) and bool(asked.chosen)
