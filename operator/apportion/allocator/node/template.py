"""NodeTemplate: the layout of a node's devices without names, attributes and holdings.

In: the pools of a node, slice by slice. Out: one object for all nodes with equal layout: which devices are visible,
shareable and tainted, and which consume the same counters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.countergroup import GroupTemplate, GroupTypes, compatibility_groups
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.negatives import negative
from apportion.allocator.rules.pools import NodeInfo, PoolView, consumption, reaches, skippable
from apportion.allocator.rules.slices import SliceView
from apportion.dra.consumedcounters import GROUPS, CounterAmounts
from apportion.dra.device import Device
from apportion.dra.node import OPTIONAL_NODE_OPERATIONS
from apportion.dra.slice import Slice
from apportion.dra.taint import Taint

MOST_KEPT = 4096
"""Node templates kept; a node keeps the one that it has."""


class SliceOnNode(NamedTuple):
    """A slice, with the devices that one node may use."""

    view: SliceView
    visible: int
    """Bit per device that is available on the node."""
    usable: int
    """Bit per device that may be allocated there."""


class PoolOnNode(NamedTuple):
    """A pool, with the devices that one node may use."""

    driver: str
    binds: bool
    """Whether some device has binding conditions; such pools are tried last."""
    slices: tuple[SliceOnNode, ...]
    counters: CounterAmounts


def pool_on_node(
    pool: PoolView, views: Callable[[Slice], SliceView], node: NodeInfo, features: Features
) -> PoolOnNode:
    """Return a pool with its devices for a node. `views`: returns the view of a slice."""
    rows = []
    for view in map(views, pool.slices):
        visible = _visible(view, node, features)
        rows.append(SliceOnNode(view, visible, _usable(view, visible, node, features)))
    return PoolOnNode(pool.id.driver, pool.binds, tuple(rows), pool.counters or {})


def _visible(view: SliceView, node: NodeInfo, features: Features) -> int:
    """Return the devices that are available on the node."""
    piece = view.slice
    mask = (1 << len(piece.devices)) - 1
    if not features.device_binding_and_status:
        mask &= ~view.template.binding
    if piece.availability.per_device:
        for index, device in enumerate(piece.devices):
            if not reaches(piece, device, node):
                mask &= ~(1 << index)
    return mask


def _usable(view: SliceView, visible: int, node: NodeInfo, features: Features) -> int:
    """Return which of the visible devices may be allocated on the node. Upstream evaluates selectors on the others, too."""
    if not skippable(view.slice, node):
        return 0
    usable = visible & ~view.template.closed
    return usable if features.partitionable_devices else usable & ~view.template.consuming


def why_unusable(piece: Slice, device: Device, node: NodeInfo) -> str:
    """Return why a device that is visible on the node is never allocated there (`_usable`)."""
    if not skippable(piece, node):
        return f"its slice has skipNodeOperations, and status.declaredFeatures of the node has no {OPTIONAL_NODE_OPERATIONS}"
    if below := negative(device):
        return f"{below} is negative"
    return "it consumes counters, and the feature DRAPartitionableDevices is off"


class NodeTemplate:
    """The layout. Sets of devices are bit masks over their positions on the node."""

    __slots__ = (
        "base",
        "compatible",
        "content",
        "counter_of",
        "group_of",
        "groups",
        "limited",
        "plain",
        "pool_masks",
        "pool_of_group",
        "shareable",
        "slice_of",
        "slices",
        "tainted",
        "taints",
        "taken",
        "visible",
    )

    def __init__(
        self,
        pools: Sequence[PoolOnNode],
        types: GroupTypes,
        features: Features,
    ) -> None:
        devices: list[Device] = []
        rows: list[tuple[int, int, int]] = []
        slice_of: list[int] = []
        masks: list[int] = []
        self.visible = self.base = self.shareable = self.limited = self.tainted = 0
        """Devices that selectors evaluate; that may be allocated; shareable ones; with capacity to be checked even for
        requests that name none; with a NoSchedule or NoExecute taint."""
        self.taints: dict[int, tuple[Taint, ...]] = {}
        self.groups: list[GroupTemplate] = []
        self.group_of: dict[int, tuple[int, int]] = {}
        """(group, position in the group) by device."""
        self.counter_of: dict[tuple[int, tuple[str, str]], tuple[int, int]] = {}
        """(group, position of the counter) by pool and counter."""
        self.compatible: dict[tuple[int, str], tuple[int, Mapping[str, int]]] = {}
        """(group, positions of the compatibility groups) by pool and counter set, where a device of the pool names groups."""
        for number, pool in enumerate(pools):
            start = len(devices)
            for piece, visible, usable in pool.slices:
                offset = len(devices)
                devices += piece.slice.devices
                slice_of += [len(rows)] * len(piece.slice.devices)
                rows.append((number, offset, visible))
                template = piece.template
                self.visible |= visible << offset
                self.base |= usable << offset
                if features.consumable_capacity:
                    self.shareable |= (usable & template.shareable) << offset
                self.limited |= (visible & template.limited) << offset
                for position, kept in template.blocking.items() if features.device_taints else ():
                    if usable >> position & 1:
                        self.taints[offset + position] = kept
                        self.tainted |= 1 << offset + position
            masks.append((1 << len(devices)) - (1 << start))
            if pool.counters:
                self._add_groups(number, pool.counters, devices, start, types)
        self.taken = tuple([consumption(device) for device in devices])
        """The counter consumption of every device."""
        self.slices = tuple(rows)
        """Pool, first device and visible devices of every slice."""
        self.slice_of = tuple(slice_of)
        self.pool_masks = tuple(masks)
        self.pool_of_group = tuple(group.pool for group in self.groups)
        self.plain = self.base & ~sum(group.mask for group in self.groups)
        """Devices without counters."""
        tainted: dict[tuple[Taint, ...], int] = {}
        for index, kept in self.taints.items():
            tainted[kept] = tainted.get(kept, 0) | 1 << index
        self.content = (
            tuple((pool.driver, pool.binds) for pool in pools),
            tuple(mask.bit_length() for mask in masks),
            self.visible,
            self.base,
            self.shareable,
            tuple((group.group_type, group.mask, group.totals) for group in self.groups),
            tuple(tainted.items()),
        )
        """Everything that a search reads but attributes, capacities and holdings; without names."""

    def _add_groups(
        self,
        pool: int,
        totals: CounterAmounts,
        devices: Sequence[Device],
        start: int,
        types: GroupTypes,
    ) -> None:
        """Create the groups of a pool: devices that share counter sets, directly or through other devices."""
        root: dict[str, str] = {}

        def find(name: str) -> str:
            while root.setdefault(name, name) != name:
                name = root[name]
            return name

        members: dict[str, list[int]] = {}
        consuming = [index for index in range(start, len(devices)) if devices[index].consumes]
        for index in consuming:
            sets = [need.counter_set for need in devices[index].consumes]
            for other in sets[1:]:
                root[find(other)] = find(sets[0])
        for index in consuming:
            members.setdefault(find(devices[index].consumes[0].counter_set), []).append(index)
        by_set: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(totals):
            if name[1] != GROUPS:
                by_set.setdefault(name[0], []).append(name)
        for indices in members.values():
            sets_used = dict.fromkeys(
                need.counter_set for index in indices for need in devices[index].consumes
            )
            counters = tuple(name for used in sets_used for name in by_set.get(used, ()))
            consumed = [consumption(devices[index]) for index in indices]
            grouped = [used for used in sets_used if (used, GROUPS) in totals]
            compatible = compatibility_groups(consumed, grouped, len(counters)) if grouped else {}
            for used, positions in compatible.items():
                self.compatible[pool, used] = len(self.groups), positions
            for number, name in enumerate(counters):
                self.counter_of[pool, name] = len(self.groups), number
            for local, index in enumerate(indices):
                self.group_of[index] = (len(self.groups), local)
            group_type = types.of_amounts(consumed, counters, compatible)
            amounts = (*[totals[name] for name in counters], *[0 for row in compatible.values() for _ in row])
            consecutive = indices[-1] - indices[0] + 1 == len(indices)
            self.groups.append(
                GroupTemplate(
                    pool,
                    tuple(indices),
                    group_type,
                    counters,
                    amounts,
                    sum(1 << index for index in indices),
                    indices[0] if consecutive else None,
                    group_type.state(amounts),
                )
            )


class NodeTemplates:
    """One template for all nodes with equal layout, and one index of device names for all nodes with equal names."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._types = GroupTypes()
        self._kept: Memo[object, NodeTemplate] = Memo(MOST_KEPT)
        self._indexes_by_name: Memo[object, Mapping[str, int]] = Memo(MOST_KEPT)

    def of(self, pools: Sequence[PoolOnNode]) -> NodeTemplate:
        """Return the template for these pools."""
        key = tuple(
            [
                (
                    pool.driver,
                    pool.binds,
                    tuple([(row.view.template, row.visible, row.usable) for row in pool.slices]),
                    tuple(pool.counters.items()),
                )
                for pool in pools
            ]
        )
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = NodeTemplate(pools, self._types, self._features)
        return found

    def index_by_name(self, devices: Sequence[Device], mask: int) -> Mapping[str, int]:
        """Return the positions of a pool's devices in the mask by name; nodes with equal names share it. Not to be changed."""
        if not mask:
            return {}
        names = tuple(
            [device.name for device in devices[(mask & -mask).bit_length() - 1 : mask.bit_length()]]
        )
        key = names, mask
        found = self._indexes_by_name.get(key)
        if found is None:
            found = self._indexes_by_name[key] = {devices[index].name: index for index in bits(mask)}
        return found

    def __len__(self) -> int:
        return len(self._kept) + len(self._indexes_by_name)
