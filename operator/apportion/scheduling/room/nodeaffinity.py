"""NodeAffinity: required node affinity of pods, compared once with each version of a node.

In: terms of which one must hold; nodes. Out: whether they allow a node. Hundreds of terms and thousands of nodes take seconds: they are compared in steps before
somebody asks about all nodes at once.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from apportion.dra.node import Node
from apportion.dra.selection import Term
from apportion.scheduling.pace import Pace

Terms: TypeAlias = tuple[Term, ...]
MOST_KEPT = 32
"""Sets of terms for which it is kept what they allow."""
_AT_ONCE = 2048
"""Requirements, and half a millionth of a second each."""


class AllowedNodes:
    """What some terms say of nodes."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._size = sum(1 + len(term.labels) + len(term.fields) for term in terms)
        self._seen: dict[str, tuple[Node, bool]] = {}

    def steps(self, nodes: Iterable[Node]) -> Iterator[None]:
        """Compare the terms with nodes; yields where others may run."""
        pace = Pace(_AT_ONCE)
        for node in nodes:
            if self._seen.get(node.name, (None,))[0] is not node:
                if pace.rests(self._size):
                    yield
                self.allows(node)

    def allows(self, node: Node) -> bool:
        """Say whether one of the terms holds for a node."""
        seen = self._seen.get(node.name)
        if seen is None or seen[0] is not node:
            seen = node, any(term.matches(node.name, node.labels) for term in self._terms)
            self._seen[node.name] = seen
        return seen[1]

    def drop(self, node: str) -> None:
        """Forget a node (name) that is gone."""
        self._seen.pop(node, None)


class NodeAffinity:
    """What terms allow, by terms."""

    def __init__(self) -> None:
        self._kept: dict[Terms, AllowedNodes] = {}

    def of(self, terms: Terms) -> AllowedNodes:
        """Return what these terms allow."""
        if terms not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[terms] = AllowedNodes(terms)
        return self._kept[terms]

    def drop(self, node: str) -> None:
        """Forget a node (name) that is gone."""
        for each in self._kept.values():
            each.drop(node)
