"""Kinds of nodes: what nodes have in common whose names, UUIDs and bus addresses differ.

In: a node's view. Out: its kind, one object for all nodes that a search cannot tell apart while the same of their
devices are held. Attributes whose values differ from node to node are personal: of those a kind keeps only which
devices agree, and selectors that read one are asked node by node.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from apportion.allocator.answers import Reads, capacity_of
from apportion.allocator.layout import Layout
from apportion.dra.semver import Semver

if TYPE_CHECKING:
    from apportion.allocator.fault import Flaw
    from apportion.allocator.ladder.closeness import Closeness
    from apportion.allocator.shape import Meaning
    from apportion.allocator.view import Atom, NodeView

MOST_COLUMNS = 48
"""Ways in which one attribute may be spread over a node before it counts as personal."""

MOST_TEXTS = 4096
"""Selectors whose devices are kept per kind."""

Column: TypeAlias = tuple[object, ...]
Selected: TypeAlias = "tuple[int, dict[int, Flaw]]"


class Kind:
    """What is found out once for all nodes of a kind."""

    __slots__ = ("_personal", "closeness", "layout", "open", "selected", "values")

    def __init__(self, personal: frozenset[str]) -> None:
        self._personal = personal
        self.selected: dict[object, Selected] = {}
        self.values: dict[str, dict[Atom, int]] = {}
        self.layout: Layout | None = None
        self.closeness: dict[object, Closeness] = {}
        """By ladder."""
        self.open: dict[Meaning, tuple[int, ...] | None] = {}
        """Devices that each alternative of a claim for one device may take while none is held; None: it is another claim."""

    def remember(self, meaning: "Meaning", found: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Keep what a claim for one device may take."""
        if len(self.open) >= MOST_TEXTS:
            self.open.clear()
        self.open[meaning] = found
        return found

    def keep(self, key: object, found: Selected) -> None:
        """Remember which devices some selectors accept."""
        if len(self.selected) >= MOST_TEXTS:
            self.selected.clear()
        self.selected[key] = found

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these answer alike on all nodes of the kind."""
        return not any(read is None or any(name in self._personal for _, name in read) for read in reads)

    def shares(self, attribute: str) -> bool:
        """Say whether all nodes of the kind have the same values there."""
        return attribute not in self._personal


class Kinds:
    """The kinds seen so far."""

    def __init__(self) -> None:
        self.personal: frozenset[str] = frozenset()
        """Full names of attributes and capacities whose values differ from node to node."""
        self._columns: dict[str, dict[Column, int]] = {}
        self._kinds: dict[tuple[object, ...], Kind] = {}

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these answer alike on all nodes of a kind."""
        return Kind(self.personal).covers(reads)

    def of(self, view: "NodeView") -> Kind:
        """Return the kind of a node. `personal` may grow by this; then every kind given before is void."""
        if view.peculiar:
            # Where messages name pools and capacities are shared, a node is like itself only.
            return Kind(self.personal)
        parts: list[object] = [view.build]
        for name, column in sorted(_columns(view).items()):
            number = self._number(name, column)
            parts.append((name, number) if number is not None else (name, _partition(column)))
        key = tuple(parts)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = Kind(self.personal)
        return found

    def _number(self, name: str, column: Column) -> int | None:
        """Return a number that stands for the values; None if the attribute is personal."""
        if name in self.personal:
            return None
        known = self._columns.setdefault(name, {})
        if column not in known and len(known) >= MOST_COLUMNS:
            self.personal |= {name}
            self._kinds.clear()
            del self._columns[name]
            return None
        return known.setdefault(column, len(known))


def _columns(view: "NodeView") -> dict[str, Column]:
    """Return what the node's devices hold, by the full name of the attribute or capacity."""
    size = len(view.devices)
    found: dict[str, list[object]] = {}
    # Readers share equal parts of devices, so most are looked at once for many devices.
    alike: dict[tuple[int, int], list[int]] = {}
    for index, device in enumerate(view.devices):
        alike.setdefault((id(device.attributes), id(device.capacity)), []).append(index)
    for places in alike.values():
        device = view.devices[places[0]]
        values: dict[str, object] = {
            name: value if value.__class__ is str else _plain(value)
            for name, value in device.attributes.items()
        }
        for own in device.capacity:
            name, amount = capacity_of(device, own)
            # An attribute and a capacity may have one name.
            values[name] = ("both", values[name], amount) if name in values else ("amount", amount)
        for name, value in values.items():
            column = found.get(name)
            if column is None:
                column = found[name] = [None] * size
            for index in places:
                column[index] = value
    return {name: tuple(column) for name, column in found.items()}


def _plain(value: object) -> object:
    """Return something hashable that differs wherever a selector could see a difference."""
    if isinstance(value, tuple):
        return "list", tuple(_plain(entry) for entry in value)
    return type(value).__name__, value.text if isinstance(value, Semver) else value


def _partition(column: Column) -> Column:
    """Rename values by their first place, so that only agreement is left."""
    if any(value.__class__ is tuple and value[0] in _COMPOUND for value in column):
        return column
    names: dict[object, int] = {None: -1}
    return tuple(names.setdefault(value, len(names)) for value in column)


_COMPOUND = frozenset(["list", "both"])
"""Lists overlap without being equal, so they are not renamed."""
