"""NodeFit: which nodes could take some pods, as far as the changes of nodes were read, and what rules the others out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from apportion.dra.node import Resources
from apportion.dra.pod import Pod


@dataclass(slots=True)
class NodeFit:
    """Which nodes could take some pods."""

    pods: Sequence[Pod]
    """One of each kind: nodes look at equal ones alike."""
    wanted: Resources
    """What all request together."""
    above: int | None = None
    """Pods of lower priority than this do not count; None: all do."""
    alone: bool = False
    """Whether no other pods count."""
    level: int | None = None
    """Pods of this priority or higher count that are nominated; None: none do."""
    doubted: set[str] = field(default_factory=set)
    """Nodes that were looked at with another level."""
    seen: int = -1
    """How far the changes of nodes were read."""
    nodes: set[str] = field(default_factory=set)
    against: dict[str, str] = field(default_factory=dict)
    """What rules the others out, by node."""
    reasons: Counter[str] = field(default_factory=Counter)
    frozen: frozenset[str] | None = None
    """The nodes as they were last returned; None: they changed since."""

    def fitting(self) -> frozenset[str]:
        """Return the nodes."""
        if self.frozen is None:
            self.frozen = frozenset(self.nodes)
        return self.frozen

    def yields_to(self, level: int | None, nodes: Iterable[str]) -> None:
        """Replace the level; `nodes`: those for which pods are nominated."""
        if level != self.level:
            self.level = level
            self.doubted.update(nodes)

    def put(self, node: str, reason: str | None, *, exists: bool = True) -> None:
        """Note what rules a node out; None: nothing does."""
        self.doubted.discard(node)
        before = self.against.pop(node, None)
        if before is not None:
            self.reasons[before] -= 1
            if not self.reasons[before]:
                del self.reasons[before]
        if exists and reason is None:
            if node not in self.nodes:
                self.nodes.add(node)
                self.frozen = None
            return
        if node in self.nodes:
            self.nodes.discard(node)
            self.frozen = None
        if exists and reason is not None:
            self.against[node] = reason
            self.reasons[reason] += 1
