"""LayoutPlan: the static partitions that a PartitionLayout asks for.

In: the snapshot. Out: per layout a plan: Partition objects to create or delete, reservations that keep claims off
what is wanted but not yet cut, DeviceClasses, and the status. Cards in use are left alone; at
most `maxUnavailable` nodes change at a time.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.layout import LAYOUT_HOLD, PartitionLayout
from apportion.api.partition import Holder, HolderKind, Origin, Partition, Phase
from apportion.api.unresolved import not_published
from apportion.cel import Programs
from apportion.cluster.indexes.deviceindex import card_of, device_of
from apportion.cluster.kinds import LAYOUTS
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput, SelectorError
from apportion.partitions.actions import Action, Create, Delete, SetHolder, partition_for
from apportion.partitions.card import PartitionableCard, is_certain, is_static, partitionable_card
from apportion.partitions.layoutclasses import check_names, classes
from apportion.partitions.layoutplaces import choose, is_of
from apportion.partitions.leaving import dynamic, in_use


@dataclass(slots=True)
class LayoutPlan:
    """What one layout needs now."""

    layout: PartitionLayout
    actions: list[Action] = field(default_factory=list)
    reserved: list[DeviceId] = field(default_factory=list)
    """Placements that are wanted and not yet cut: no claim may get them."""
    classes: list[dict[str, Any]] = field(default_factory=list)
    """DeviceClasses that should exist."""
    desired: set[str] = field(default_factory=set)
    """Names of the nodes with selected cards."""
    unready: set[str] = field(default_factory=set)
    unselected: str = ""
    """Why no card is selected."""
    blocked: dict[str, str] = field(default_factory=dict)
    """Why a node cannot get the layout now."""
    passing: list[DeviceId] = field(default_factory=list)
    """Devices in its way that no allocation has, but a decision or a reservation that may come to nothing: no epoch grows then."""
    broken: BrokenInput | None = None
    """Why it can never work as written."""

    def is_outdated(self, snapshot: Snapshot) -> bool:
        """Say whether something that was in its way when it was made is free without any trace."""
        return any(not _users(device, snapshot) for device in self.passing)


def layout_plans(snapshot: Snapshot, programs: Programs) -> list[LayoutPlan]:
    """Return the plan of every layout, older layouts first: a younger layout gets what they leave."""
    found = []
    claimed: dict[DeviceId, list[str]] = {}
    for layout in sorted(snapshot.layouts.values(), key=_age):
        plan = LayoutPlan(layout)
        try:
            check_names(layout)
            plan.classes = classes(layout, snapshot)
            _fill(plan, snapshot, programs, claimed)
        except BrokenInput as error:
            plan.broken = error
        found.append(plan)
    return found


def orphans(snapshot: Snapshot, planned: Iterable[LayoutPlan]) -> list[Delete]:
    """Return how to delete layout partitions whose layout is gone, that are not in use, and that no layout made anew under its name takes over."""
    planned = tuple(planned)
    kept = {plan.layout.metadata.uid for plan in planned} | snapshot.left_out(LAYOUTS)
    taken_over = {
        action.partition.metadata.uid
        for plan in planned
        for action in plan.actions
        if isinstance(action, SetHolder)
    }
    return [
        Delete(partition, "its layout is gone")
        for layout in snapshot.devices.layouts
        if layout not in kept
        for partition in snapshot.devices.of_layout(layout)
        if is_static(partition)
        and partition.metadata.uid not in taken_over
        and partition.metadata.deletion_timestamp is None
        and not in_use(partition, snapshot)
    ]


def _age(layout: PartitionLayout) -> tuple[str, str]:
    made = layout.metadata.creation_timestamp
    return (made.isoformat() if made else "", layout.metadata.name)


def _fill(
    plan: LayoutPlan, snapshot: Snapshot, programs: Programs, claimed: dict[DeviceId, list[str]]
) -> None:
    layout = plan.layout
    offered = _cards(layout, snapshot)
    selected = [card for card in offered if _selected(layout, card, programs)]
    plan.desired = {card.node for card in selected}
    plan.unselected = "" if selected else _unselected(layout, len(offered), snapshot)
    changing = {card.node for card in selected if _changing(card, layout)}
    allowed = _allowed(layout, len(plan.desired))
    impossible: BrokenInput | None = None
    for card in sorted(selected, key=lambda c: (c.node not in changing, c.node, c.whole.name)):
        older = claimed.get(card.whole.id, [])
        try:
            wanted = choose(card, layout, older)
        except BrokenInput as error:
            impossible = error
            plan.blocked[card.node] = str(error)
            continue
        claimed[card.whole.id] = [*older, *(part.device.name for part in wanted)]
        _converge(plan, card, wanted, older, snapshot, changing, allowed)
    surplus = {card.whole.id for card in selected}
    for partition in snapshot.devices.of_layout(layout.metadata.uid):
        if (where := card_of(partition)) not in surplus and is_certain(snapshot, where):
            _drop(plan, partition, snapshot)
    if selected and impossible is not None and plan.desired <= set(plan.blocked):
        raise impossible


def _cards(layout: PartitionLayout, snapshot: Snapshot) -> list[PartitionableCard]:
    found = []
    for where in sorted(snapshot.devices.cards):
        card = partitionable_card(snapshot, where)
        node = snapshot.node(card.node) if card else None
        if card is not None and node is not None and layout.spec.node_selector.matches(node.labels):
            found.append(card)
    return found


def _selected(layout: PartitionLayout, card: PartitionableCard, programs: Programs) -> bool:
    if not layout.spec.devices:
        offered = {part.profile for part in card.published.values()}
        return all(entry.profile in offered for entry in layout.spec.partitions)
    for index, selector in enumerate(layout.spec.devices):
        field_path = f"spec.devices[{index}].cel.expression"
        program = programs.get(selector.cel.expression)
        if isinstance(program, SelectorError):
            raise BrokenInput(program.reason, field=field_path)
        try:
            if not program.match(card.whole):
                return False
        except SelectorError as error:
            raise BrokenInput(f"device {card.whole.id}: {error.reason}", field=field_path) from None
    return True


def _unselected(layout: PartitionLayout, cards: int, snapshot: Snapshot) -> str:
    """Return why none of so many cards, those of the nodes that it selects, is selected."""
    spec, profiles = layout.spec, snapshot.devices.names.profiles
    if not any(spec.node_selector.matches(node.labels) for node in snapshot.nodes.values()):
        return "spec.nodeSelector: it selects no node"
    unknown = [
        not_published(f"spec.partitions[{index}].profile", "profile", entry.profile, profiles).text
        for index, entry in enumerate(spec.partitions)
        if entry.profile not in profiles
    ]
    if unknown:
        return "; ".join(unknown)
    if not cards:
        return "no node that spec.nodeSelector selects has a card that can be cut"
    what = "is selected by spec.devices" if spec.devices else "offers all profiles of spec.partitions"
    return f"of {cards} cards on the nodes that spec.nodeSelector selects, none {what}"


def _converge(
    plan: LayoutPlan,
    card: PartitionableCard,
    wanted: list[PublishedPartition],
    older: list[str],
    snapshot: Snapshot,
    changing: set[str],
    allowed: int,
) -> None:
    """Plan one card; `older`: the devices that older layouts have there, or want."""
    layout = plan.layout
    names = {part.device.name + STATIC_SUFFIX for part in wanted}
    holder = Holder(kind=HolderKind.LAYOUT, name=layout.metadata.name, uid=layout.metadata.uid)
    have = {p.spec.device: p for p in card.partitions if is_of(p, layout)}
    plan.actions += [
        SetHolder(partition, holder)
        for name, partition in have.items()
        if name in names and partition.spec.holder != holder and not _leaves(partition)
    ]
    missing = [part for part in wanted if part.device.name + STATIC_SUFFIX not in have]
    for partition in (p for name, p in have.items() if name in names and not _usable(p, snapshot)):
        plan.unready.add(card.node)
        plan.reserved.append(dynamic(partition))
        if partition.status.phase == Phase.FAILED:
            plan.blocked[card.node] = f"{partition.spec.device}: {_why(partition)}"
    surplus = [p for name, p in have.items() if name not in names and p.spec.holder == holder]
    used, only_idle = _used(card, snapshot), layout.spec.rollout.only_idle
    if used and (missing or not all(map(_leaves, surplus))):
        taken = {name.removesuffix(STATIC_SUFFIX) for name in used}
        # Older layouts that what is used keeps from their places keep nobody else from them.
        taken |= set(older) if card.fits({*taken, *older}) else set()
        if only_idle or (missing and not card.fits(taken.union(part.device.name for part in wanted))):
            plan.unready.add(card.node)
            plan.blocked[card.node] = f"{card.whole.name} is in use ({used[0]})"
            held = [device for name in used if _users(device := card.device(name), snapshot)]
            plan.passing += [device for device in held if not snapshot.claim_index.holders(device)]
            missing = []
    for partition in () if used and only_idle else surplus:
        _drop(plan, partition, snapshot)
    if not missing:
        return
    plan.unready.add(card.node)
    plan.reserved.extend(part.device.id for part in missing)
    if card.node not in changing and len(changing) >= allowed:
        return
    changing.add(card.node)
    plan.actions.extend(Create(partition_for(part, card.node, Origin.LAYOUT, holder)) for part in missing)


def _usable(partition: Partition, snapshot: Snapshot) -> bool:
    """Say whether a partition is cut and published: only then slices say what is left of its card."""
    published = snapshot.devices.device(device_of(partition)) is not None
    return partition.status.phase == Phase.READY and published


def _used(card: PartitionableCard, snapshot: Snapshot) -> list[str]:
    """Return the names of the devices of a card that a claim or a container has, the card itself and partitions of layouts among them."""
    cut = {p.spec.device for p in card.partitions if in_use(p, snapshot)}
    return sorted(cut | {name for name in card.names if _users(card.device(name), snapshot)})


def _users(device: DeviceId, snapshot: Snapshot) -> list[str]:
    """Return the keys under which others than layouts hold a device."""
    return [key for key in snapshot.state.holders(device) if not key.startswith(LAYOUT_HOLD)]


def _leaves(partition: Partition) -> bool:
    return partition.metadata.deletion_timestamp is not None


def _drop(plan: LayoutPlan, partition: Partition, snapshot: Snapshot) -> None:
    if not _leaves(partition) and not in_use(partition, snapshot):
        plan.actions.append(Delete(partition, "its layout no longer wants it"))


def _changing(card: PartitionableCard, layout: PartitionLayout) -> bool:
    return any(
        is_of(p, layout) and p.status.phase not in (Phase.READY, Phase.FAILED) for p in card.partitions
    )


def _why(partition: Partition) -> str:
    return next(
        (c.message for c in partition.status.conditions if c.status == "False" and c.message), "failed"
    )


def _allowed(layout: PartitionLayout, nodes: int) -> int:
    limit = layout.spec.rollout.max_unavailable
    if isinstance(limit, int):
        return limit
    return max(1, math.ceil(nodes * int(limit.removesuffix("%")) / 100))
