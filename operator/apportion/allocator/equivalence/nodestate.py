"""NodeState: nodes of one class with equal holdings. A search has the same outcome on all of them.

In: node names with class and holdings. Out: one object per state with the names of its nodes, and a log of the states with
a new first node, so that a ranking reads only the new ones.
"""

from collections.abc import Callable, Container, Iterable
from heapq import heapify, heappop, heappush

from apportion.allocator.changelog import ChangeLog
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import Outcome

LEAST = 1024
"""States, and log entries, kept in any case before those out of date are removed."""

MOST_PRICE_FREE = 256
"""Outcomes kept per state whose picks do not depend on prices."""


class NodeState:
    """Nodes with equal outcomes for every query."""

    __slots__ = ("_heap", "_price_free", "holdings", "node_class", "nodes")

    def __init__(self, node_class: NodeClass, holdings: object) -> None:
        self.node_class = node_class
        self.holdings = holdings
        """What is held on each of its nodes (`NodeView.holdings`)."""
        self.nodes: set[str] = set()
        self._price_free: Memo[Query, Outcome] | None = None
        self._heap: list[str] = []

    @property
    def price_free(self) -> Memo[Query, Outcome]:
        """Outcomes whose picks do not depend on prices. Created on first use."""
        if self._price_free is None:
            self._price_free = Memo(MOST_PRICE_FREE)
        return self._price_free

    def add(self, name: str) -> None:
        """Add a node."""
        self.nodes.add(name)
        self.node_class.nodes += 1
        heappush(self._heap, name)
        if len(self._heap) > 16 + 2 * len(self.nodes):
            self._heap = list(self.nodes)
            heapify(self._heap)

    def discard(self, name: str) -> None:
        """Remove a node that is in this state."""
        self.nodes.discard(name)
        self.node_class.nodes -= 1

    def first(self) -> str:
        """Return the first node by name. The state must have a node."""
        heap, nodes = self._heap, self.nodes
        while heap[0] not in nodes:
            heappop(heap)
        return heap[0]


class NodeStates:
    """The state of every node."""

    def __init__(self) -> None:
        self._table: dict[tuple[NodeClass, tuple[object, ...]], NodeState] = {}
        self._of: dict[str, NodeState] = {}
        self.log: ChangeLog[NodeState] = ChangeLog()
        """States that got a new first node."""
        self.of: Callable[[str], NodeState] = self._of.__getitem__
        """Return the state of a node; raises KeyError for a node that was never put. Hot path: the table's own method."""

    def put(self, name: str, node_class: NodeClass, view: NodeView) -> None:
        """Move a node to its current state."""
        key = node_class, view.holdings
        found = self._table.get(key)
        if found is None:
            if len(self._table) > LEAST + 4 * len(self._of):
                self._table = {known: state for known, state in self._table.items() if state.nodes}
            found = self._table[key] = NodeState(*key)
        former = self._of.get(name)
        if former is found:
            return
        if former is not None:
            former.discard(name)
        if not found.nodes or name < found.first():
            self.log.add(found, most=LEAST + 8 * len(self._of))
        self._of[name] = found
        found.add(name)

    def drop(self, name: str) -> None:
        """Remove a node."""
        former = self._of.pop(name, None)
        if former is not None:
            former.discard(name)

    def clear(self) -> None:
        """Remove all nodes and states, because the classes are void."""
        for state in self._table.values():
            state.node_class.nodes -= len(state.nodes)
            state.nodes.clear()
        self._table.clear()
        self._of.clear()
        self.log.void()

    def all(self) -> list[NodeState]:
        """Return every state that has nodes."""
        return [state for state in self._table.values() if state.nodes]

    def representatives(self, names: Iterable[str], apart: Container[str]) -> list[str]:
        """Return those of some nodes that are `apart`, and of the others the first by name in each state."""
        of, found, first = self._of, list[str](), dict[NodeState, str]()
        for name in names:
            if name in apart:
                found.append(name)
            elif name < first.setdefault(of[name], name):
                first[of[name]] = name
        return [*found, *first.values()]

    def __len__(self) -> int:
        return len(self._table)
