"""Fleet: what the cluster has of devices, kept in step with it node by node.

In: the nodes that changed since it was asked last. Out: samples. Work is proportional to what changed; nodes of one class with the same
devices held are computed once. A device that several nodes may use counts for one of them.
"""

from collections import Counter
from collections.abc import Iterator

from apportion.allocator.bits import bits
from apportion.allocator.facts.host import HostResources
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.cli.answers.largest import DeviceKind
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.gauges import described
from apportion.gauges.described import Sample
from apportion.gauges.nodedevices import (
    MOST_COUNTS,
    Counts,
    Model,
    NodeDevices,
    Slices,
    TaintedCard,
    node_devices,
)

MOST_ROWS = 8192
"""Combinations of a node class and held devices whose numbers are kept."""
CORDONED, TAINTED, HOST = "cordoned", "tainted", "host"
"""Why devices are stranded."""


class Fleet:
    """The numbers of every node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cursor = -1
        """How far the log of nodes was read."""
        self._stale: dict[str, None] = {}
        """Nodes that are to be read; steps that are abandoned lose none of them."""
        self._nodes: dict[str, NodeDevices] = {}
        self._rows: Memo[tuple[NodeClass, object], NodeDevices] = Memo(MOST_ROWS)
        self._counts: Counts = Memo(MOST_COUNTS)
        self._owners: dict[DeviceId, str] = {}
        """The node for which a device counts that others may use, too."""
        self._owned: dict[str, frozenset[DeviceId]] = {}
        """These devices by node; also of nodes for which none counts."""

    def steps(self) -> Iterator[None]:
        """Take in what changed; yields where others may run."""
        state = self._snapshot.state
        names = state.names()
        self._cursor, changed = state.since(self._cursor)
        self._stale |= dict.fromkeys(names if changed is None else changed)
        self._stale |= dict.fromkeys(self._nodes.keys() - names.keys())
        while self._stale:
            for name in sorted(self._stale):
                yield
                if self._follow(name):
                    # What counted for this node may count for another one.
                    self._stale |= dict.fromkeys(self._owned)
                del self._stale[name]

    def _follow(self, name: str) -> bool:
        """Read a node anew; says whether devices that others may use do not count for it any more."""
        before = self._owned.pop(name, frozenset())
        for device in before:
            del self._owners[device]
        if name in self._snapshot.state.names():
            self._nodes[name] = self._read(name)
        else:
            self._nodes.pop(name, None)
        return not before <= self._owned.get(name, frozenset())

    def _read(self, name: str) -> NodeDevices:
        view = self._snapshot.state.view(name)
        if not view.all_node_local:
            return node_devices(view, self._own(name, view), self._counts)
        if view.node_class is None:
            return node_devices(view, view.base, self._counts)
        key = view.node_class, view.holdings
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = node_devices(view, view.base, self._counts)
        return found

    def _own(self, name: str, view: NodeView) -> int:
        """Return the devices of a node that count for no other node."""
        own = [index for index in bits(view.base) if self._owners.setdefault(view.id_of(index), name) == name]
        self._owned[name] = frozenset(view.id_of(index) for index in own)
        return sum(1 << index for index in own)

    def samples(self) -> Iterator[Sample | None]:
        """Yield the values as of the last `steps`, and None where others may run."""
        stranded: Counter[tuple[DeviceKind, str]] = Counter()
        capacity: Counter[DeviceKind] = Counter()
        placeable: Counter[DeviceKind] = Counter()
        slices: dict[Model, Slices] = {}
        tainted: Counter[TaintedCard] = Counter()
        for (row, cause), count in Counter(self._placed()).items():
            yield None
            for kind, each in row.kinds.items():
                capacity[kind] += count * each.capacity
                placeable[kind] += count * each.placeable * (cause != CORDONED)
                stranded[kind, TAINTED] += count * each.tainted
                if cause:
                    stranded[kind, cause] += count * each.placeable
            for model, own in row.slices.items():
                total = slices.setdefault(model, Slices())
                total.add(count * own.total, count * own.free, count * own.scattered)
            for card, cards in row.tainted.items():
                tainted[card] += count * cards
        for kind, most in capacity.items():
            yield Sample(described.CAPACITY, kind, most)
            yield Sample(described.PLACEABLE, kind, placeable[kind])
            for cause in (CORDONED, TAINTED, HOST):
                yield Sample(described.STRANDED, (*kind, cause), stranded[kind, cause])
        for model, total in slices.items():
            yield Sample(described.SLICES, model, total.total)
            yield Sample(described.SLICES_FREE, model, total.free)
            yield Sample(described.SLICES_SCATTERED, model, total.scattered)
        for card, cards in tainted.items():
            yield Sample(described.TAINTED, card, cards)

    def _placed(self) -> Iterator[tuple[NodeDevices, str]]:
        """Yield the numbers of each node with why its devices are stranded; empty: they are not."""
        cordoned = {node.name for node in self._snapshot.nodes.values() if node.unschedulable}
        least, left = self._least(), self._snapshot.state.hosts.left
        for name, row in self._nodes.items():
            here = left.get(name)
            short = least is not None and here is not None and not here.holds(least)
            yield row, CORDONED if name in cordoned else HOST if short else ""

    def _least(self) -> HostResources | None:
        """Return the cpu and the memory of which no recent demand asked for less; None: there was none."""
        asked = [amount for _, amount, _ in self._snapshot.state.learned.typical]
        if not asked:
            return None
        return HostResources(min(each.cpu for each in asked), min(each.memory for each in asked))
