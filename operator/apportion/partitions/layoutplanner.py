"""LayoutPlanner: the static partitions that PartitionLayouts ask for.

In: the snapshot. Out: per layout a plan: Partition objects to create or delete, reservations that keep claims off
what is wanted but not yet cut, DeviceClasses, and the status. Cards in use are left alone; at
most `maxUnavailable` nodes change at a time. Only cards of which something changed are looked at; the plans are made of what was seen of all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from apportion.api.layout import PartitionLayout
from apportion.api.partition import Origin
from apportion.cel import Programs
from apportion.cluster.indexes.deviceindex import device_of, layout_of
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput
from apportion.partitions.actions import Create, partition_for
from apportion.partitions.card import is_certain, partitionable_card
from apportion.partitions.layoutcard import LayoutCard, dropped, layout_card, passes, selects
from apportion.partitions.layoutclasses import Offered, check_names, classes
from apportion.partitions.layoutplaces import holder_of
from apportion.partitions.layouts import LayoutPlan, allowed_nodes, unselected

AT_ONCE: Final = 32
"""Cards; a quarter of a millisecond each."""


@dataclass(slots=True)
class _Cards:
    """The cards of one layout: of those where nothing is to be done, to hold or to say, only the nodes are known."""

    flaw: BrokenInput | None = None
    """Why it can never work, whatever cards there are."""
    included: int = 0
    """How many cards are on nodes that its node selector includes."""
    desired: Counter[str] = field(default_factory=Counter)
    """How many of them it selects, by node."""
    unsettled: dict[DeviceId, LayoutCard] = field(default_factory=dict)
    made: dict[DeviceId, tuple[Create, ...]] = field(default_factory=dict)
    """What creates the missing partitions of those that may change."""
    broken: dict[DeviceId, BrokenInput] = field(default_factory=dict)
    """Cards on which a selector fails: the layout does nothing anywhere, and keeps no younger one from any place."""
    left: dict[DeviceId, None] = field(default_factory=dict)
    """Cards that it does not select and that have partitions of it."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was last counted of a card."""

    node: str
    """Empty: no slice of a node has it."""
    offered: frozenset[Offered]
    including: tuple[str, ...]
    """The layouts (UIDs) whose node selector includes its node."""
    selecting: tuple[str, ...]
    """Those of them that select the card."""


class LayoutPlanner:
    """Follows layouts, cards and their nodes."""

    def __init__(self, snapshot: Snapshot, programs: Programs, at_once: int = AT_ONCE) -> None:
        """`at_once`: cards that are looked at before others run."""
        self._snapshot = snapshot
        self._programs = programs
        self._at_once = at_once
        self._layouts: tuple[PartitionLayout, ...] = ()
        """Older ones first: a younger layout gets what they leave."""
        self._of: dict[str, _Cards] = {}
        """By layout (UID), in that order."""
        self._void: frozenset[str] = frozenset()
        """Layouts (UIDs) that keep no younger one from any place."""
        self._due: dict[DeviceId, None] = {}
        """Cards to look at."""
        self._seen: dict[DeviceId, _Seen] = {}
        self._on_node: dict[str, dict[DeviceId, None]] = {}
        self._labels: dict[str, Mapping[str, str] | None] = {}
        """Of the nodes of these cards, as they were last seen; None: there is no Node object."""
        self._offered: Counter[Offered] = Counter()
        self._cards_read = self._holders_read = self._nodes_read = -1
        """How far changes of cards, of who holds devices, and of nodes were read."""

    def steps(self) -> Iterator[None]:
        """Look at the cards of which something changed; yields where others may run."""
        while self._read():
            for number, card in enumerate(tuple(self._due), 1):
                if number % self._at_once == 0:
                    yield
                self._forget(card)
                self._look(card)
                self._due.pop(card, None)

    def plans(self) -> list[LayoutPlan]:
        """Return the plan of every layout, older layouts first."""
        for _ in self.steps():
            pass
        return [self._plan(layout) for layout in self._layouts]

    def pass_over(self) -> None:
        """Note that all that changed about cards and holders since the last plan came of it: what layouts hold, or hold no more."""
        self._cards_read = self._snapshot.devices.changes.end
        self._holders_read = self._snapshot.state.held_or_released.end

    # Following. -----------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Read what changed; says whether there is a card to look at."""
        snapshot, devices = self._snapshot, self._snapshot.devices
        self._cards_read, changed = devices.changes.since(self._cards_read)
        self._holders_read, held = snapshot.state.held_or_released.since(self._holders_read)
        self._nodes_read, nodes = snapshot.changes.hosts.since(self._nodes_read)
        layouts = tuple(sorted(snapshot.layouts.values(), key=_age))
        if [_kind(each) for each in layouts] != [_kind(each) for each in self._layouts]:
            self._begin(layouts)
            changed = None
        self._layouts = layouts
        if not layouts:
            return False
        if changed is None or held is None:
            self._due |= dict.fromkeys((*devices.cards, *devices.partitioned, *self._seen))
        else:
            self._due |= dict.fromkeys((*changed, *map(devices.card, held)))
        for name in self._changed_nodes(nodes):
            self._due |= self._on_node[name]
        void = frozenset(uid for uid, own in self._of.items() if own.broken)
        if void != self._void:
            self._void = void
            self._due |= dict.fromkeys(self._seen)
        return bool(self._due)

    def _begin(self, layouts: Iterable[PartitionLayout]) -> None:
        """Forget what was seen, for other layouts."""
        self._due.clear()
        self._seen.clear()
        self._on_node.clear()
        self._labels.clear()
        self._offered.clear()
        self._void = frozenset()
        self._of = {layout.metadata.uid: _Cards() for layout in layouts}
        for layout in layouts:
            try:
                check_names(layout)
            except BrokenInput as error:
                self._of[layout.metadata.uid].flaw = error

    def _changed_nodes(self, names: Iterable[str] | None) -> Iterator[str]:
        """Yield the nodes of known cards whose labels are others now, or whose Node object has come or gone."""
        for name in tuple(self._on_node) if names is None else dict.fromkeys(names):
            if name in self._on_node:
                node = self._snapshot.node(name)
                labels = node.labels if node is not None else None
                if labels != self._labels.get(name):
                    self._labels[name] = labels
                    yield name

    def _forget(self, where: DeviceId) -> None:
        seen = self._seen.pop(where, None)
        if seen is None:
            return
        self._offered.subtract(seen.offered)
        self._offered += Counter()
        for uid in seen.including:
            self._of[uid].included -= 1
        for uid in seen.selecting:
            desired = self._of[uid].desired
            desired[seen.node] -= 1
            if not desired[seen.node]:
                del desired[seen.node]
        for own in self._of.values():
            for rows in (own.unsettled, own.made, own.broken, own.left):
                rows.pop(where, None)
        on_node = self._on_node.get(seen.node, {})
        on_node.pop(where, None)
        if not on_node:
            self._on_node.pop(seen.node, None)
            self._labels.pop(seen.node, None)

    def _look(self, where: DeviceId) -> None:
        snapshot, devices = self._snapshot, self._snapshot.devices
        card, published = partitionable_card(snapshot, where), devices.published(where)
        name = published[1] if published is not None else ""
        node = snapshot.node(name)
        holders = {layout_of(partition) for partition in devices.partitions_on(where).values()}
        including, selecting, older = list[str](), list[str](), list[str]()
        for layout in self._layouts:
            uid = layout.metadata.uid
            own = self._of[uid]
            if own.flaw is not None:
                continue
            if card and card.published and node and layout.spec.node_selector.matches(node.labels):
                including.append(uid)
                own.included += 1
                try:
                    selected = selects(layout, card, self._programs)
                except BrokenInput as error:
                    own.broken[where] = error
                    continue
                if selected:
                    selecting.append(uid)
                    own.desired[name] += 1
                    found = layout_card(layout, card, older, snapshot)
                    older += found.devices if uid not in self._void else ()
                    if not found.settled:
                        own.unsettled[where] = found
                    continue
            if uid in holders:
                own.left[where] = None
        parts = devices.published_partitions(where).values() if where.driver in snapshot.drivers else ()
        offered = frozenset(Offered(part.profile, where.driver, part.start is not None) for part in parts)
        self._offered.update(offered)
        if name or offered or holders:
            self._seen[where] = _Seen(name, offered, tuple(including), tuple(selecting))
        if name:
            self._on_node.setdefault(name, {})[where] = None
            # What other cards of the node were looked at with stays, so that these are looked at again.
            self._labels.setdefault(name, node.labels if node is not None else None)

    # Planning. ------------------------------------------------------------------------------------------------

    def _plan(self, layout: PartitionLayout) -> LayoutPlan:
        plan, own = LayoutPlan(layout), self._of[layout.metadata.uid]
        try:
            if own.flaw is not None:
                raise own.flaw
            plan.classes = classes(layout, self._offered)
            if own.broken:
                raise own.broken[min(own.broken)]
            self._fill(plan, own)
        except BrokenInput as error:
            plan.broken = error
        return plan

    def _fill(self, plan: LayoutPlan, own: _Cards) -> None:
        layout, snapshot = plan.layout, self._snapshot
        plan.desired = set(own.desired)
        plan.unselected = "" if own.desired else unselected(layout, own.included, snapshot)
        changing = {card.node for card in own.unsettled.values() if card.changing}
        before, allowed = frozenset(changing), allowed_nodes(layout, len(plan.desired))
        impossible: BrokenInput | None = None
        order = sorted(own.unsettled.items(), key=lambda r: (r[1].node not in before, r[1].node, r[1].name))
        for where, card in order:
            if card.impossible is not None:
                impossible = card.impossible
                plan.blocked[card.node] = str(impossible)
                continue
            plan.actions += card.actions
            plan.reserved += card.reserved
            plan.passing += card.passing
            if card.unready:
                plan.unready.add(card.node)
            if card.blocked:
                plan.blocked[card.node] = card.blocked
            if card.missing and (card.node in changing or len(changing) < allowed):
                changing.add(card.node)
                if where not in own.made:
                    holder = holder_of(layout)
                    made = (partition_for(part, card.node, Origin.LAYOUT, holder) for part in card.missing)
                    own.made[where] = tuple(map(Create, made))
                plan.actions += own.made[where]
        for where in own.left:
            if is_certain(snapshot, where):
                for partition in snapshot.devices.partitions_on(where).values():
                    if layout_of(partition) == layout.metadata.uid:
                        plan.actions += dropped(partition, snapshot)
                        plan.passing += passes((device_of(partition),), snapshot)
        if own.desired and impossible is not None and plan.desired <= set(plan.blocked):
            raise impossible


def layout_plans(snapshot: Snapshot, programs: Programs) -> list[LayoutPlan]:
    """Return the plan of every layout, older layouts first."""
    return LayoutPlanner(snapshot, programs).plans()


def _age(layout: PartitionLayout) -> tuple[str, str]:
    made = layout.metadata.creation_timestamp
    return (made.isoformat() if made else "", layout.metadata.name)


def _kind(layout: PartitionLayout) -> tuple[object, ...]:
    """Return all of a layout that cards are compared with."""
    return layout.metadata.uid, layout.metadata.name, layout.spec
