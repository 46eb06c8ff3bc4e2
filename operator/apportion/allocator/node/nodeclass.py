"""NodeClass: nodes with one template and equal attribute values; with the same devices held, searches on them are equal.

In: a node template, and a number per attribute for its values. Out: one object for all nodes of the class, with the results
that are true for all of them. Attributes whose values differ from node to node (UUIDs) are not in the class, except for
which devices agree in them where they are compared; selectors that read one are evaluated node by node.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from apportion.allocator.memo import Memo, Memos, Topic, keep
from apportion.allocator.node.neighbours import Neighbours
from apportion.allocator.node.selection import Selected, SelectorTexts
from apportion.allocator.node.template import NodeTemplate
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import Reads, SelectorLookup

MOST_TEXTS = 4096
"""Selector results, query keys and groups kept per class, as long as there are few classes."""
MOST_KEPT = 1 << 20
"""The same of all classes together: a result takes a quarter of a kibibyte, and a cluster of unlike nodes has thousands of classes."""
LEAST_TEXTS = 64
"""What a class keeps however many classes there are."""

Value = TypeVar("Value")


class ClassGroup:
    """The classes with equal template, limits and values of some attributes. Compared by identity."""

    __slots__ = ("classes",)

    def __init__(self) -> None:
        self.classes = 0
        """How many classes have been in the group."""


class NodeClass(Memos):
    """The results that are true for every node of the class."""

    __slots__ = (
        "__weakref__",
        "_compared",
        "_groups",
        "_peers",
        "_query_keys",
        "_shared",
        "columns",
        "limits",
        "memos",
        "neighbours",
        "nodes",
        "per_node",
        "selected",
        "template",
    )

    def __init__(
        self,
        template: NodeTemplate,
        columns: Mapping[str, int] | None,
        shared: Memo[object, Any],
        *,
        per_node: frozenset[str],
        compared: frozenset[str],
        peers: Callable[[], int],
        limits: object = (),
    ) -> None:
        """`shared`: results that several classes share; `peers` says how many classes there are. `columns` is None for a class of one node."""
        self._peers = peers
        self.template = template
        self.limits = limits
        """Capacities and request policies of the devices that serve several claims, or that have such a policy."""
        self.columns = columns
        """A number per attribute: equal numbers mean equal values on all devices."""
        self.per_node = per_node
        """Full names of attributes and capacities whose values differ from node to node."""
        self._compared = compared
        self._shared = shared
        self.nodes = 0
        """How many nodes are in the class now."""
        self.selected: dict[SelectorTexts, Selected] = {}
        """Filled by `select`."""
        self.neighbours: Neighbours | None = None
        self._groups: dict[tuple[str, ...], ClassGroup | None] = {}
        self._query_keys: dict[tuple[Query, frozenset[str]], object] = {}
        self.memos: dict[Topic[Any, Any], dict[Any, Any]] = {}

    @property
    def most(self) -> int:
        """How many results it keeps of each sort."""
        return max(LEAST_TEXTS, min(MOST_TEXTS, MOST_KEPT // max(1, self._peers())))

    def select(self, texts: SelectorTexts, found: Selected) -> Selected:
        """Keep the result of selectors, and return it."""
        return keep(self.selected, texts, found, self.most)

    def table(self, topic: object, names: Iterable[str], make: Callable[[], Value]) -> Value:
        """Return what `make` returns, once for all classes with equal template and equal values of these attributes."""
        group = self.group_over(tuple(names))
        if group is None:
            return make()
        key = topic, group
        found: Value | None = self._shared.get(key)
        if found is None:
            found = self._shared[key] = make()
        return found

    def group_over(self, names: tuple[str, ...]) -> ClassGroup | None:
        """Return the group of classes with equal template, limits and values of these attributes; None if one is per node.

        The same object for all of them, so that upper modules compare no values. Hot path.
        """
        found = self._groups.get(names)
        if found is None and names not in self._groups:
            columns = self.columns
            if columns is not None and self.per_node.isdisjoint(names):
                key = names, self.template, self.limits, tuple([columns.get(name) for name in names])
                found = self._shared.get(key)
                if found is None:
                    found = self._shared[key] = ClassGroup()
                found.classes += 1
            keep(self._groups, names, found, self.most)
        return found

    def query_key(self, query: Query, more: frozenset[str], selectors: SelectorLookup) -> object:
        """Key of everything that the query can observe on the class, with the attributes `more`; None if it may observe more."""
        if query.amounts:
            return None
        key = query, more
        if key not in self._query_keys:
            reads = [selectors(text).reads for text in query.texts]
            names = more.union([constraint.attribute for constraint in query.constraints])
            names = names.union([name for read in reads for _, name in read or ()])
            found = None if None in reads else self.group_over(tuple(sorted(names)))
            keep(self._query_keys, key, found, self.most)
        return self._query_keys[key]

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these accept the same devices on all nodes of the class."""
        return covers(self.per_node, reads)

    def shares(self, attribute: str) -> bool:
        """Say whether all nodes of the class have equal values of the attribute."""
        return attribute not in self.per_node

    def agrees(self, attributes: Iterable[str]) -> bool:
        """Say whether on all nodes of the class the same devices agree in these attributes."""
        return agree(self.per_node, self._compared, attributes)


def covers(per_node: frozenset[str], reads: Iterable[Reads]) -> bool:
    """Say whether selectors that read these read no attribute that differs from node to node."""
    return not any(read is None or any(name in per_node for _, name in read) for read in reads)


def agree(per_node: frozenset[str], compared: frozenset[str], attributes: Iterable[str]) -> bool:
    """Say whether on all nodes of a class the same devices agree in these attributes."""
    return all(name not in per_node or name in compared for name in attributes)
