"""Resource pools of one node (KEP-4381), gathered and validated like upstream's GatherPools (dra.md 1.3).

In: the slices of a pool, and a node. Out: the slices of the newest generation with devices for the node, or why the pool
may not be used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.memo import Memo
from apportion.allocator.rules.features import Features
from apportion.dra.consumedcounters import GROUPS, CounterAmounts, groups_entry
from apportion.dra.device import Device
from apportion.dra.node import OPTIONAL_NODE_OPERATIONS
from apportion.dra.quantity import NANO, Quantity
from apportion.dra.slice import PoolId, Slice


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The facts of a node that decide which slices it may use."""

    name: str
    labels: Mapping[str, str]
    declared: frozenset[str] = frozenset()
    """Features that the node's kubelet declares (`status.declaredFeatures`)."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool on one node: usable, incomplete or invalid."""

    id: PoolId
    slices: tuple[Slice, ...] = ()
    """Slices with devices for the node, sorted by name."""
    counters: CounterAmounts | None = None
    """Totals of the pool's counter sets, in 10^-9, with an entry `GROUPS` for each set of which a device names groups; None without the feature PartitionableDevices."""
    incomplete: bool = False
    invalid: str = ""
    """Why the pool is invalid, "" if it is not."""
    field: str = ""
    """The slice and field that make it invalid: `SLICE: FIELD`."""

    @property
    def usable(self) -> bool:
        """Whether devices may be taken from the pool."""
        return not self.incomplete and not self.invalid

    @property
    def binds(self) -> bool:
        """Whether some device has binding conditions; such pools are tried last."""
        return any(device.binding_conditions for piece in self.slices for device in piece.devices)


def pool_on(pool: PoolId, slices: Iterable[Slice], node: NodeInfo, features: Features) -> PoolView | None:
    """Gather a pool for a node; None if it has no devices for the node, or a newer generation is being published."""
    all_slices = list(slices)
    relevant = [piece for piece in all_slices if _known(piece, features) and covers(piece, node)]
    if not relevant:
        return None
    generation = max(piece.generation for piece in relevant)
    relevant = [piece for piece in relevant if piece.generation == generation]
    count = relevant[0].count
    others: list[Slice] = []
    if len(relevant) != count:
        if any(piece.generation > generation for piece in all_slices):
            return None
        here = {id(piece) for piece in relevant}
        same = [piece for piece in all_slices if piece.generation == generation]
        if len(same) != count or any(piece.unread for piece in same):
            return PoolView(pool, incomplete=True)
        others = [piece for piece in same if id(piece) not in here]
    if any(piece.unread for piece in relevant):
        return PoolView(pool, incomplete=True)
    if not features.compatibility_groups and any(
        need.compatibility
        for piece in (*relevant, *others)
        for device in piece.devices
        for need in device.consumes
    ):
        return None
    return _validate(pool, sorted(relevant, key=_order), others, features)


def covers(piece: Slice, node: NodeInfo) -> bool:
    """Say whether the slice is for the node, or has a device that is; one may be among those that cannot be read."""
    if piece.availability.per_device:
        return piece.unread or any(
            device.availability is not None and device.availability.covers(node.name, node.labels)
            for device in piece.devices
        )
    return piece.availability.covers(node.name, node.labels)


def reaches(piece: Slice, device: Device, node: NodeInfo) -> bool:
    """Say whether a device of a relevant slice is available on the node."""
    if not piece.availability.per_device:
        return True
    return device.availability is not None and device.availability.covers(node.name, node.labels)


def skippable(piece: Slice, node: NodeInfo) -> bool:
    """Say whether the node's kubelet leaves out what the slice says (`skipNodeOperations`); true where it says nothing.

    Elsewhere the slice's devices match, and are not allocated (upstream's `allocateDevice`).
    """
    return not piece.skip_node_operations or OPTIONAL_NODE_OPERATIONS in node.declared


def _known(piece: Slice, features: Features) -> bool:
    """Say whether the slice may serve a node. Without the feature, one with counters or a node selection per device only counts."""
    return features.partitionable_devices or not (piece.availability.per_device or piece.counter_sets)


def _order(piece: Slice) -> tuple[str, str]:
    return piece.name, piece.uid


def _validate(pool: PoolId, here: Sequence[Slice], others: Sequence[Slice], features: Features) -> PoolView:
    if not features.partitionable_devices:
        return _named_once(PoolView(pool, tuple(here)))
    counters: dict[tuple[str, str], int] = {}
    sets: set[str] = set()
    for piece in (*here, *others):
        for index, counter_set in enumerate(piece.counter_sets):
            if counter_set.name in sets:
                reason = f"counter set {counter_set.name} is there twice"
                return _invalid(pool, piece, f"sharedCounters[{index}].name", reason)
            sets.add(counter_set.name)
            counters.update({(counter_set.name, name): amount.nano for name, amount in counter_set.counters})
    devices = tuple(piece for piece in here if not piece.counter_sets)
    found = _named_once(PoolView(pool, devices, counters))
    if found.invalid:
        return found
    grouped: dict[tuple[str, str], int] = {}
    for piece in (*devices, *others):
        for index, device in enumerate(piece.devices):
            if not device.consumes or _is_plain(device, sets, counters):
                continue
            reason = _unknown_counter(device, sets, counters)
            if reason:
                reason = f"device {device.name}: {reason}"
                return _invalid(pool, piece, f"devices[{index}].consumesCounters", reason)
            grouped.update({(need.counter_set, GROUPS): 0 for need in device.consumes if need.compatibility})
    counters.update(grouped)
    return found


def _named_once(found: PoolView) -> PoolView:
    """Return the pool, invalid if two of its devices have one name."""
    seen: set[str] = set()
    for piece in found.slices:
        for index, device in enumerate(piece.devices):
            if device.name in seen:
                reason = f"device name {device.name} is there twice"
                return _invalid(found.id, piece, f"devices[{index}].name", reason)
            seen.add(device.name)
    return found


def _invalid(pool: PoolId, piece: Slice, field: str, reason: str) -> PoolView:
    return PoolView(pool, invalid=reason, field=f"{piece.name}: spec.{field}")


def _is_plain(device: Device, sets: set[str], counters: CounterAmounts) -> bool:
    """Say whether a device consumes counters that there are, and names no compatibility group."""
    return consumption(device).keys() <= counters.keys() and all(
        need.counter_set in sets for need in device.consumes
    )


def _unknown_counter(device: Device, sets: set[str], counters: CounterAmounts) -> str:
    for need in device.consumes:
        if need.counter_set not in sets:
            return f"consumes from counter set {need.counter_set}, which the pool does not have"
        for name, _ in need.counters:
            if (need.counter_set, name) not in counters:
                return f"consumes counter {name}, which counter set {need.counter_set} does not have"
    return ""


MOST_CONSUMPTIONS = 65536
_consumptions: Memo[int, tuple[object, CounterAmounts]] = Memo(MOST_CONSUMPTIONS)


def consumption(device: Device) -> CounterAmounts:
    """Return what a device consumes of its pool's counters, in 10^-9. Shared, so it must not be changed."""
    # The slice reader shares equal `consumesCounters`. The object is kept, so that its id is not used for another.
    known = _consumptions.get(id(device.consumes))
    if known is not None:
        return known[1]
    taken: dict[tuple[str, str], int] = {}
    for need in device.consumes:
        for name, amount in need.counters:
            taken[need.counter_set, name] = taken.get((need.counter_set, name), 0) + max(0, amount.nano)
        if need.compatibility:
            taken[need.counter_set, groups_entry(need.compatibility)] = NANO
    _consumptions[id(device.consumes)] = device.consumes, taken
    return taken


def amount(nano: int) -> str:
    """Return a counter's amount in 10^-9 as a Kubernetes quantity."""
    return str(Quantity(nano, "BinarySI"))
