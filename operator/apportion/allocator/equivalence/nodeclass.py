"""NodeClasses of nodes: what nodes have in common whose names, UUIDs and bus addresses differ.

In: a node's view. Out: its kind, one object for all nodes that a search cannot tell apart while the same of their
devices are held. Attributes whose values differ from node to node are personal: of those a kind keeps only which
devices agree, and that only where somebody compares devices by them; selectors that read one are asked node by node.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from apportion.allocator.closeness.ladder import DEFAULT
from apportion.allocator.equivalence.columns import Column, columns_of, partition
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES, Neighbours
from apportion.allocator.rules.selectors import Reads

if TYPE_CHECKING:
    from apportion.allocator.closeness.distances import NodeDistances
    from apportion.allocator.node.nodeview import NodeView, SelectorLookup
    from apportion.allocator.node.selection import Selected
    from apportion.allocator.pricing.prices import NodePrices
    from apportion.allocator.rules.attributes import AttributeIndex
    from apportion.allocator.rules.query import Query
    from apportion.allocator.search.singleplan import SinglePlan
    from apportion.allocator.strategies.wholedevices import WantedDevices

MOST_COLUMNS = 48
"""Ways in which one attribute may be spread over a node before it counts as personal."""

LEAST_KEPT = 64
"""NodeClasses without nodes are looked for when there are more kinds than this, and twice those with nodes."""

MOST_NAMES = 2048
"""Attributes that are followed at first; beyond it all is learnt anew."""

MOST_TEXTS = 4096
"""Selectors whose devices are kept per kind."""

MOST_TABLES = 16_384
"""Selections, layouts and attributes that are remembered."""

MOST_COMPARED = 512
"""Attributes by which devices are compared, as users name them; beyond it all is learnt anew."""

COMPARED = frozenset(NEIGHBOUR_ATTRIBUTES).union(name for rung in DEFAULT.rungs for name in rung.names)
"""Attributes by which devices are compared without a claim that says so."""

Value = TypeVar("Value")


class Tables:
    """What is found out once for all kinds that hold the same where it matters."""

    def __init__(self) -> None:
        self._kept: dict[object, Any] = {}

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what `make` returned first for the key."""
        if key not in self._kept:
            if len(self._kept) >= MOST_TABLES:
                self._kept.clear()
            self._kept[key] = make()
        found: Value = self._kept[key]
        return found


class NodeClass:
    """What is found out once for all nodes of a kind."""

    __slots__ = (
        "__weakref__",
        "_compared",
        "_tables",
        "closeness",
        "columns",
        "footprints",
        "layout",
        "nodes",
        "personal",
        "plans",
        "rows",
        "sample",
        "selected",
        "sights",
        "wanted",
    )

    def __init__(
        self,
        kinds: "NodeClasses",
        sample: "NodeView",
        tables: "Tables",
        columns: Mapping[str, int] | None = None,
    ) -> None:
        self.personal = kinds.personal
        """Attributes of which it holds at most which devices agree."""
        self._compared = kinds.compared
        self._tables = tables
        self.sample = sample
        """One of its nodes, as it was when the kind was first seen."""
        self.columns = columns
        """A number for what its devices hold, by attribute; None where it is like no other kind."""
        self.nodes = 0
        """How many nodes are of the kind now."""
        self.selected: dict[object, Selected] = {}
        self.rows: dict[str, AttributeIndex] = {}
        self.layout: Neighbours | None = None
        self.closeness: dict[object, NodeDistances] = {}
        """By ladder."""
        self.footprints: dict[tuple[Query, frozenset[str]], object] = {}
        self.plans: dict[Query, SinglePlan | None] = {}
        """What claims for one device may take; None: it is another claim."""

        self.sights: dict[object, NodePrices] = {}
        """What it is to a mix of demand, by outlook."""
        self.wanted: dict[Query, WantedDevices | None] = {}
        """What claims for whole devices want; None: it is another claim."""

    def remember(self, meaning: "Query", plan: "SinglePlan | None") -> "SinglePlan | None":
        """Keep what a claim for one device may take."""
        if len(self.plans) >= MOST_TEXTS:
            self.plans.clear()
        self.plans[meaning] = plan
        return plan

    def table(self, about: object, names: Iterable[str], make: Callable[[], Value]) -> Value:
        """Return what `make` returns for all kinds that are built alike and hold the same in these attributes."""
        named = tuple(names)
        seen = self.seen(named)
        return make() if seen is None else self._tables.get((about, named, seen), make)

    def seen(self, names: Sequence[str]) -> object:
        """Return what kinds have in common that are built alike and hold the same in these attributes; None: nothing."""
        columns = self.columns
        if columns is None or not self.personal.isdisjoint(names):
            return None
        return self.sample.anatomy, tuple([columns.get(name) for name in names])

    def footprint(self, meaning: "Query", more: frozenset[str], answers: "SelectorLookup") -> object:
        """Return what of the kind a claim can see: its own attributes, and `more`; None where that is too much to say."""
        key = meaning, more
        if key not in self.footprints:
            if len(self.footprints) >= MOST_TEXTS:
                self.footprints.clear()
            self.footprints[key] = self._footprint(meaning, more, answers)
        return self.footprints[key]

    def _footprint(self, meaning: "Query", more: frozenset[str], answers: "SelectorLookup") -> object:
        reads = [answers(text).reads for text in meaning.texts]
        names = more.union([rule.attribute for rule in meaning.rules])
        names = names.union([name for read in reads for _, name in read or ()])
        return None if None in reads else self.seen(sorted(names))

    def keep(self, key: object, found: "Selected") -> None:
        """Remember which devices some selectors accept."""
        if len(self.selected) >= MOST_TEXTS:
            self.selected.clear()
        self.selected[key] = found

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these answer alike on all nodes of the kind."""
        return _covers(self.personal, reads)

    def signature(self, meaning: "Query", answers: "SelectorLookup") -> object:
        """Return what the meaning's selectors accept here; claims of equal signatures are served alike."""
        masks: list[int] = []
        for slot in meaning.slots:
            for want in slot.wants:
                mask, errors = self.sample.selected(want, answers)
                if errors:
                    # An error's text names the selector.
                    return meaning
                masks.append(mask)
        return tuple(masks)

    def shares(self, attribute: str) -> bool:
        """Say whether all nodes of the kind have the same values there."""
        return attribute not in self.personal

    def agrees(self, attributes: Iterable[str]) -> bool:
        """Say whether on all nodes of the kind the same devices have equal values there."""
        return _agree(self.personal, self._compared, attributes)


class NodeClasses:
    """The kinds that nodes have now, and some that they had."""

    def __init__(self) -> None:
        self.personal: frozenset[str] = frozenset()
        """Full names of attributes and capacities whose values differ from node to node."""
        self.compared = COMPARED
        """Full names of attributes by which devices are compared: constraints and ladders do so."""
        self.log: list[NodeClass] = []
        """Every kind, in the order in which they were seen."""
        self.epoch = 0
        """Grows when kinds leave the log."""
        self.era = 0
        """Grows when all kinds become void, because `personal` changed."""
        self._columns: dict[str, dict[Column, int]] = {}
        self._kinds: dict[tuple[object, ...], NodeClass] = {}
        self._numbers = 0
        self._tables = Tables()
        self._limit = LEAST_KEPT
        self._most_names = MOST_NAMES

    def covers(self, reads: Iterable[Reads]) -> bool:
        """Say whether selectors that read these answer alike on all nodes of a kind."""
        return _covers(self.personal, reads)

    def agree(self, attributes: Iterable[str]) -> bool:
        """Say whether on all nodes of a kind the same devices have equal values there."""
        return _agree(self.personal, self.compared, attributes)

    def compare(self, attributes: Iterable[str]) -> None:
        """Learn by what devices are compared. The era may end by this."""
        fresh = frozenset(attributes) - self.compared
        if not fresh:
            return
        full = len(self.compared) + len(fresh) > MOST_COMPARED
        self.compared = (COMPARED if full else self.compared) | fresh
        if full or not fresh.isdisjoint(self.personal):
            self._void()

    def of(self, view: "NodeView") -> NodeClass:
        """Return the kind of a node. The era may end by this; then every kind given before is void, this one too."""
        if len(self.log) >= self._limit:
            self._sweep()
        if view.peculiar:
            # Where messages name pools and capacities are shared, a node is like itself only.
            return self._note(NodeClass(self, view, self._tables))
        if len(self._columns) + len(self.personal) > self._most_names:
            # If they are all in use, twice as many may be.
            self._most_names *= 2
            self.personal = frozenset()
            self._void()
            self._columns.clear()
        parts: list[object] = [view.anatomy.build]
        columns: dict[str, int] = {}
        for name, column in sorted(columns_of(view).items()):
            number = self._number(name, column)
            if number is not None:
                columns[name] = number
            elif name in self.compared:
                parts.append((name, partition(column)))
        parts.append(tuple(columns.items()))
        key = tuple(parts)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = self._note(NodeClass(self, view, self._tables, columns))
        return found

    def _note(self, kind: NodeClass) -> NodeClass:
        self.log.append(kind)
        return kind

    def _number(self, name: str, column: Column) -> int | None:
        """Return a number that stands for the values; None if the attribute is personal."""
        if name in self.personal:
            return None
        known = self._columns.setdefault(name, {})
        found = known.get(column)
        if found is not None:
            return found
        if len(known) >= MOST_COLUMNS:
            # Values of nodes that are gone do not count.
            live = {kind.columns.get(name) for kind in self.log if kind.nodes and kind.columns}
            known = self._columns[name] = {kept: number for kept, number in known.items() if number in live}
        if len(known) >= MOST_COLUMNS:
            self.personal |= {name}
            del self._columns[name]
            self._void()
            return None
        self._numbers += 1
        known[column] = self._numbers
        return self._numbers

    def _void(self) -> None:
        self._kinds.clear()
        self.log.clear()
        self.epoch += 1
        self.era += 1

    def _sweep(self) -> None:
        """Forget the kinds that no node has."""
        kept = [kind for kind in self.log if kind.nodes]
        if len(kept) < len(self.log):
            self.log = kept
            self.epoch += 1
            self._kinds = {key: kind for key, kind in self._kinds.items() if kind.nodes}
        self._limit = LEAST_KEPT + 2 * len(kept)


def _covers(personal: frozenset[str], reads: Iterable[Reads]) -> bool:
    return not any(read is None or any(name in personal for _, name in read) for read in reads)


def _agree(personal: frozenset[str], compared: frozenset[str], attributes: Iterable[str]) -> bool:
    return all(name not in personal or name in compared for name in attributes)
