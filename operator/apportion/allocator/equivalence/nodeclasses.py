"""NodeClasses: which node is of which class.

In: node views. Out: the class of each. Whether the values of an attribute tell classes apart is learnt: an attribute
with many different columns (UUIDs, bus addresses) becomes a per-node attribute, and all classes are made anew.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from apportion.allocator.equivalence.columns import Column, columns_of, partition
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeclass import NodeClass, agree, covers
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.selectors import Reads

MOST_COLUMNS = 48
"""Different columns of one attribute, above which it counts as a per-node attribute."""

LEAST_KEPT = 64
"""Classes without nodes are looked for when there are more classes than this, and twice those with nodes."""

MOST_NAMES = 2048
"""Attributes that are followed at first; beyond it all is learnt anew."""

MOST_TABLES = 16_384
"""Results that classes have in common."""

MOST_COMPARED = 512
"""Attributes by which devices are compared, as users name them; beyond it all is learnt anew."""


class Sample(NamedTuple):
    """A class with one of its nodes, as it was when the class was first seen."""

    node_class: NodeClass
    view: NodeView


class NodeClasses:
    """The classes that nodes have now, and some that they had."""

    def __init__(self, compared: frozenset[str]) -> None:
        """`compared`: attributes by which devices are compared without a claim that says so."""
        self.per_node: frozenset[str] = frozenset()
        """Full names of attributes and capacities whose values differ from node to node."""
        self._compared_always = compared
        self.compared = compared
        """Full names of attributes by which devices are compared: constraints and ladders do so."""
        self.log: list[Sample] = []
        """Every class, in the order in which they were seen."""
        self.epoch = 0
        """Grows when classes leave the log."""
        self.generation = 0
        """Grows when all classes become void, because `per_node` changed."""
        self._columns: dict[str, dict[Column, int]] = {}
        self._classes: dict[tuple[object, ...], NodeClass] = {}
        self._numbers = 0
        self._shared: Memo[object, Any] = Memo(MOST_TABLES)
        self._limit = LEAST_KEPT
        self._most_names = MOST_NAMES

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these accept the same devices on all nodes of a class."""
        return covers(self.per_node, reads)

    def agree(self, attributes: Iterable[str]) -> bool:
        """Say whether on all nodes of a class the same devices agree in these attributes."""
        return agree(self.per_node, self.compared, attributes)

    def compare(self, attributes: Iterable[str]) -> None:
        """Learn by what devices are compared. The generation may end by this."""
        fresh = frozenset(attributes) - self.compared
        if not fresh:
            return
        full = len(self.compared) + len(fresh) > MOST_COMPARED
        self.compared = (self._compared_always if full else self.compared) | fresh
        if full or not fresh.isdisjoint(self.per_node):
            self._void()

    def of(self, view: NodeView) -> NodeClass:
        """Return the class of a node. The generation may end by this; then every class is void, this one too."""
        if len(self.log) >= self._limit:
            self._sweep()
        if view.unclassifiable:
            # Where messages name pools and capacities are shared, a node is like itself only.
            return self._note(view, None)
        if len(self._columns) + len(self.per_node) > self._most_names:
            # If they are all in use, twice as many may be.
            self._most_names *= 2
            self.per_node = frozenset()
            self._void()
            self._columns.clear()
        parts: list[object] = [view.template.content]
        columns: dict[str, int] = {}
        for name, column in sorted(columns_of(view.devices).items()):
            number = self._number(name, column)
            if number is not None:
                columns[name] = number
            elif name in self.compared:
                parts.append((name, partition(column)))
        parts.append(tuple(columns.items()))
        key = tuple(parts)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self._note(view, columns)
        return found

    def _note(self, view: NodeView, columns: dict[str, int] | None) -> NodeClass:
        made = NodeClass(view.template, columns, self._shared, per_node=self.per_node, compared=self.compared)
        self.log.append(Sample(made, view))
        return made

    def _number(self, name: str, column: Column) -> int | None:
        """Return a number that stands for the values; None if the attribute is per node."""
        if name in self.per_node:
            return None
        known = self._columns.setdefault(name, {})
        found = known.get(column)
        if found is not None:
            return found
        if len(known) >= MOST_COLUMNS:
            # Values of nodes that are gone do not count.
            live = {one.columns.get(name) for one, _ in self.log if one.nodes and one.columns}
            known = self._columns[name] = {kept: number for kept, number in known.items() if number in live}
        if len(known) >= MOST_COLUMNS:
            self.per_node |= {name}
            del self._columns[name]
            self._void()
            return None
        self._numbers += 1
        known[column] = self._numbers
        return self._numbers

    def _void(self) -> None:
        self._classes.clear()
        self.log.clear()
        self.epoch += 1
        self.generation += 1

    def _sweep(self) -> None:
        """Forget the classes that no node has."""
        kept = [sample for sample in self.log if sample.node_class.nodes]
        if len(kept) < len(self.log):
            self.log = kept
            self.epoch += 1
            self._classes = {key: found for key, found in self._classes.items() if found.nodes}
        self._limit = LEAST_KEPT + 2 * len(kept)
