"""Nodes that stand alike: of one kind, with the same of their devices held. What one of them answers, all answer.

In: node names with their kind and holdings. Out: one object per standing with the names on it, and a log of the
standings whose first node is a new one, so that whoever ranks them looks at what is new only.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from apportion.allocator.equivalence.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView

if TYPE_CHECKING:
    from apportion.allocator.rules.query import Query
    from apportion.allocator.search.outcome import Outcome

LEAST = 1024
"""Entries that are kept in any case before what is out of date is swept."""


class NodeState:
    """Nodes that a search cannot tell apart."""

    __slots__ = ("_heap", "kind", "known", "nodes")

    def __init__(self, kind: NodeClass) -> None:
        self.kind = kind
        self.nodes: set[str] = set()
        self.known: dict[Query, Outcome] | None = None
        """What LeastFragmentation chose here, where prices have no say in it. Made when it is needed, which is seldom."""
        self._heap: list[str] = []

    def add(self, name: str) -> None:
        """Let a node stand here."""
        self.nodes.add(name)
        self.kind.nodes += 1
        heappush(self._heap, name)
        if len(self._heap) > 16 + 2 * len(self.nodes):
            self._heap = list(self.nodes)
            heapify(self._heap)

    def discard(self, name: str) -> None:
        """Let a node that stands here go."""
        self.nodes.discard(name)
        self.kind.nodes -= 1

    def first(self) -> str:
        """Return the first node by name; there must be one."""
        heap, nodes = self._heap, self.nodes
        while heap[0] not in nodes:
            heappop(heap)
        return heap[0]


class NodeStates:
    """Every node on its standing."""

    def __init__(self) -> None:
        self._table: dict[tuple[NodeClass, tuple[object, ...]], NodeState] = {}
        self._of: dict[str, NodeState] = {}
        self._log: list[NodeState] = []
        self._start = 0

    def put(self, name: str, kind: NodeClass, view: NodeView) -> None:
        """Move a node to where it stands now."""
        key = kind, view.holdings
        found = self._table.get(key)
        if found is None:
            if len(self._table) > LEAST + 4 * len(self._of):
                self._sweep()
            found = self._table[key] = NodeState(kind)
        former = self._of.get(name)
        if former is found:
            return
        if former is not None:
            former.discard(name)
        if not found.nodes or name < found.first():
            self._log.append(found)
            if len(self._log) > LEAST + 8 * len(self._of):
                self._start += len(self._log)
                self._log.clear()
        self._of[name] = found
        found.add(name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        former = self._of.pop(name, None)
        if former is not None:
            former.discard(name)

    def clear(self) -> None:
        """Forget everything: the kinds are void."""
        for standing in self._table.values():
            standing.kind.nodes -= len(standing.nodes)
            standing.nodes.clear()
        self._table.clear()
        self._of.clear()
        self._start += len(self._log) + 1
        self._log.clear()

    def of(self, name: str) -> NodeState:
        """Return where a node stands; raises KeyError for a node that was never put."""
        return self._of[name]

    @property
    def end(self) -> int:
        """Return the end of the log: it grows whenever a standing gets a new first node."""
        return self._start + len(self._log)

    def since(self, cursor: int) -> tuple[int, Sequence[NodeState] | None]:
        """Return the end of the log, and the standings with a new first node after the cursor (None: too long ago)."""
        end = self.end
        if cursor < self._start:
            return end, None
        return end, self._log[cursor - self._start :]

    def all(self) -> list[NodeState]:
        """Return every standing that has nodes."""
        return [standing for standing in self._table.values() if standing.nodes]

    def __len__(self) -> int:
        return len(self._table)

    def _sweep(self) -> None:
        self._table = {key: standing for key, standing in self._table.items() if standing.nodes}
