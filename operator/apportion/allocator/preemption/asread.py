"""AsRead: whether nodes are as they were when their victims were read.

In: a state, the victims of nodes. Out: whether what is known of them still holds, after others may have changed the state. What was released and
is held by the same key once more is no change.
"""

from apportion.allocator.preemption.victims import NodeVictims
from apportion.allocator.state import State


class AsRead:
    """Nodes of a state, as they were when they were added; each of them is known then."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.nodes: dict[str, NodeVictims] = {}
        """By name."""
        self._seen: dict[str, object] = {}
        self._moment = state.moment

    def add(self, node: NodeVictims) -> None:
        """Add a node that has just been read, or was read once more."""
        self.nodes[node.node], self._seen[node.node] = node, self._of(node.node)

    def drop(self, name: str) -> None:
        """Forget a node."""
        del self.nodes[name], self._seen[name]

    def changed(self) -> list[str]:
        """Return the nodes that changed since the former call, sorted; called while nothing is released."""
        self._moment, touched = self._state.since(self._moment)
        names = self.nodes.keys() if touched is None else self.nodes.keys() & touched.keys()
        return sorted(name for name in names if not self._is_same(name))

    def _is_same(self, name: str) -> bool:
        # A victim that has lost its devices could not be released and held for it: the next one to have them looks alike.
        return (
            name in self._state.names()
            and self._of(name) == self._seen[name]
            and all(
                self._state.holds(key, results)
                for each in self.nodes[name].victims
                for key, results in each.holds.items()
            )
        )

    def _of(self, name: str) -> object:
        """Return what differs whenever a node's devices do, or what is in use of them."""
        view = self._state.view(name)
        return view, view.holdings
