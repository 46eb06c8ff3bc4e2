"""LayoutPlan: what a PartitionLayout needs now.

In: plans, the snapshot. Out: whether a plan is outdated; partitions whose layout is gone; why no card is selected.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from apportion.api.layout import PartitionLayout
from apportion.api.partition import Partition
from apportion.api.unresolved import not_published
from apportion.cluster.indexes.deviceindex import device_of
from apportion.cluster.kinds import LAYOUTS
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput
from apportion.partitions.actions import Action, Delete, SetHolder
from apportion.partitions.card import is_static
from apportion.partitions.layoutcard import passes, users
from apportion.partitions.leaving import in_use


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
    """Devices in its way, or that it gives up, that no allocation has, but a decision or a reservation that may come to nothing: no epoch grows then."""
    broken: BrokenInput | None = None
    """Why it can never work as written."""

    def is_outdated(self, snapshot: Snapshot) -> bool:
        """Say whether something that was in its way when it was made is free without any trace."""
        return any(not users(device, snapshot) for device in self.passing)


def orphans(snapshot: Snapshot, planned: Iterable[LayoutPlan]) -> list[Delete]:
    """Return how to delete layout partitions whose layout is gone, that are not in use, and that no layout made anew under its name takes over."""
    return [
        Delete(partition, "its layout is gone")
        for partition in _orphaned(snapshot, planned)
        if not in_use(partition, snapshot)
    ]


def passing_orphans(snapshot: Snapshot, planned: Iterable[LayoutPlan]) -> list[DeviceId]:
    """Return the devices of those that are in use, as far as no epoch grows when that ends."""
    return passes(map(device_of, _orphaned(snapshot, planned)), snapshot)


def _orphaned(snapshot: Snapshot, planned: Iterable[LayoutPlan]) -> Iterator[Partition]:
    planned = tuple(planned)
    kept = {plan.layout.metadata.uid for plan in planned} | snapshot.left_out(LAYOUTS)
    taken_over = {
        action.partition.metadata.uid
        for plan in planned
        for action in plan.actions
        if isinstance(action, SetHolder)
    }
    for layout in snapshot.devices.layouts:
        for partition in snapshot.devices.of_layout(layout) if layout not in kept else ():
            leaves = partition.metadata.deletion_timestamp is not None
            if is_static(partition) and partition.metadata.uid not in taken_over and not leaves:
                yield partition


def unselected(layout: PartitionLayout, cards: int, snapshot: Snapshot) -> str:
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


def allowed_nodes(layout: PartitionLayout, nodes: int) -> int:
    """Return how many of so many nodes may change at a time."""
    limit = layout.spec.rollout.max_unavailable
    if isinstance(limit, int):
        return limit
    return max(1, math.ceil(nodes * int(limit.removesuffix("%")) / 100))
