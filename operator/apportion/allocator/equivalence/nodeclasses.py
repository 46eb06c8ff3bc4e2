"""NodeClasses: the class of every node.

In: node views. Out: the class of each. An attribute with more than MOST_COLUMNS different columns (UUIDs, bus addresses)
becomes a per-node attribute, which does not decide the class; then all classes are void and created again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeclass import NodeClass, agree, covers
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.selectors import Reads, capacity_of
from apportion.dra.device import Device
from apportion.dra.semver import Semver

Column: TypeAlias = tuple[object, ...]

Limits: TypeAlias = tuple[object, ...]
"""Position, and (name, amount in 10^-9, request policy) of every capacity, of each device with limits."""


def columns_of(devices: Sequence[Device]) -> dict[str, Column]:
    """Return the columns of the devices by the full name of the attribute or capacity."""
    size = len(devices)
    found: dict[str, list[object]] = {}
    # The slice reader shares equal attributes and capacities, so most are read once for many devices.
    indexes_by_content: dict[tuple[int, int], list[int]] = {}
    for index, device in enumerate(devices):
        indexes_by_content.setdefault((id(device.attributes), id(device.capacity)), []).append(index)
    for indexes in indexes_by_content.values():
        device = devices[indexes[0]]
        values: dict[str, object] = {
            name: value if value.__class__ is str else _plain(value)
            for name, value in device.attributes.items()
        }
        for own in device.capacity:
            name, amount = capacity_of(device, own)
            # An attribute and a capacity may have the same name, and requests for capacity go by the name as it is published.
            values[name] = ("both", values[name], own, amount) if name in values else ("amount", own, amount)
        for name, value in values.items():
            column = found.get(name)
            if column is None:
                column = found[name] = [None] * size
            for index in indexes:
                column[index] = value
    return {name: tuple(column) for name, column in found.items()}


def _plain(value: object) -> object:
    """Return a hashable value; two are equal only if no selector can distinguish the originals."""
    if isinstance(value, tuple):
        return "list", tuple(_plain(entry) for entry in value)
    return type(value).__name__, value.text if isinstance(value, Semver) else value


def limits_of(view: NodeView) -> Limits:
    """Return what limits the shares of a node's devices: by device its capacities with their request policies."""
    return tuple(
        [
            (
                index,
                tuple(
                    sorted(
                        (name, entry.value.nano, entry.policy)
                        for name, entry in view.devices[index].capacity.items()
                    )
                ),
            )
            for index in bits(view.limited)
        ]
    )


def partition(column: Column) -> Column:
    """Replace values by the number of their first occurrence: equal results mean that the same devices agree."""
    if any(value.__class__ is tuple and value[0] in _COMPOUND for value in column):
        return column
    names: dict[object, int] = {None: -1}
    return tuple(names.setdefault(value, len(names)) for value in column)


def _unqualified(name: str) -> str:
    return name.rpartition("/")[2]


_COMPOUND = frozenset(["list", "both"])
"""Lists can overlap without being equal, so columns with lists stay as they are."""


MOST_COLUMNS = 48
"""Different columns of one attribute; with more it becomes a per-node attribute."""

LEAST_KEPT = 64
"""Classes without nodes are removed when there are more classes than this plus twice those with nodes."""

MOST_NAMES = 2048
"""Attributes with columns kept at first; beyond it everything starts over, and the bound doubles."""

MOST_SHARED = 16_384
"""Results that several classes share."""

MOST_COMPARED = 512
"""Attributes compared by claims and ladders; beyond it the set starts over."""


class Sample(NamedTuple):
    """A class with the view of its first node at that time."""

    node_class: NodeClass
    view: NodeView


class NodeClasses:
    """The classes of the current nodes, and some without nodes."""

    def __init__(self, compared: frozenset[str]) -> None:
        """`compared`: attributes compared without any claim that names them."""
        self.per_node: frozenset[str] = frozenset()
        """Full names of attributes and capacities whose values differ from node to node."""
        self._compared_always = compared
        self.compared = compared
        """Full names of attributes that constraints and ladders compare between devices."""
        self.log: list[Sample] = []
        """Every class, in the order of creation."""
        self.epoch = 0
        """Grows when classes leave the log."""
        self.generation = 0
        """Grows when all classes become void, because `per_node` changed."""
        self._columns: dict[str, dict[Column, int]] = {}
        self._classes: dict[tuple[object, ...], NodeClass] = {}
        self._numbers = 0
        self._shared: Memo[object, Any] = Memo(MOST_SHARED)
        self._limit = LEAST_KEPT
        self._most_names = MOST_NAMES

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these accept the same devices on all nodes of a class."""
        return covers(self.per_node, reads)

    def knows(self, amounts: Iterable[str]) -> bool:
        """Say whether all nodes of a class have equal amounts of capacities with these names, qualified or not."""
        names = {_unqualified(name) for name in amounts}
        return not names or not any(_unqualified(name) in names for name in self.per_node)

    def agree(self, attributes: Iterable[str]) -> bool:
        """Say whether on all nodes of a class the same devices agree in these attributes."""
        return agree(self.per_node, self.compared, attributes)

    def compare(self, attributes: Iterable[str]) -> None:
        """Add compared attributes, as far as they are per-node ones. This may start a new generation."""
        # Others are equal on all nodes of a class, or nobody has them: a tenant may name as many as it likes.
        fresh = self.per_node.intersection(attributes) - self.compared
        if fresh:
            full = len(self.compared) + len(fresh) > MOST_COMPARED
            self.compared = (self._compared_always if full else self.compared) | fresh
            self._void()

    def of(self, view: NodeView) -> NodeClass:
        """Return the class of a node. This may start a new generation; then every class is void, the returned one too."""
        if len(self.log) >= self._limit:
            self._sweep()
        if view.unclassifiable:
            return self._create(view, None)
        if len(self._columns) + len(self.per_node) > self._most_names:
            # If all of them are in use, the next bound must not be reached at once.
            self._most_names *= 2
            self.per_node = frozenset()
            self._void()
            self._columns.clear()
        content: list[object] = [view.template.content]
        columns: dict[str, int] = {}
        for name, column in sorted(columns_of(view.devices).items()):
            number = self._number(name, column)
            if number is not None:
                columns[name] = number
            elif name in self.compared:
                content.append((name, partition(column)))
        content.append(tuple(columns.items()))
        limits = limits_of(view)
        content.append(limits)
        key = tuple(content)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self._create(view, columns, limits)
        return found

    def _create(self, view: NodeView, columns: dict[str, int] | None, limits: Limits = ()) -> NodeClass:
        made = NodeClass(
            view.template,
            columns,
            self._shared,
            per_node=self.per_node,
            compared=self.compared,
            peers=self._count,
            limits=limits,
        )
        self.log.append(Sample(made, view))
        return made

    def _count(self) -> int:
        return len(self.log)

    def _number(self, name: str, column: Column) -> int | None:
        """Return the number of a column; None if the attribute is per node."""
        if name in self.per_node:
            return None
        known = self._columns.setdefault(name, {})
        found = known.get(column)
        if found is not None:
            return found
        if len(known) >= MOST_COLUMNS:
            # Columns of classes without nodes do not count.
            live = {
                node_class.columns.get(name)
                for node_class, _ in self.log
                if node_class.nodes and node_class.columns
            }
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
        """Remove the classes without nodes."""
        kept = [sample for sample in self.log if sample.node_class.nodes]
        if len(kept) < len(self.log):
            self.log = kept
            self.epoch += 1
            self._classes = {key: found for key, found in self._classes.items() if found.nodes}
        self._limit = LEAST_KEPT + 2 * len(kept)
