"""Pools as one node sees them (KEP-4381): the newest generation, whole, and free of contradictions.

In: the slices of a pool and a node. Out: the device slices that the node may use, or why the pool must be left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.rules.features import Features
from apportion.dra.device import Device
from apportion.dra.quantity import Quantity
from apportion.dra.slice import PoolId, Slice

CounterAmounts = Mapping[tuple[str, str], int]
"""Amounts in 10^-9 by (counter set, counter)."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node, as far as selection of slices goes."""

    name: str
    labels: Mapping[str, str]
    declared: frozenset[str] = frozenset()
    """Features that the node's kubelet declares (`status.declaredFeatures`)."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool on one node: usable, or broken with a reason."""

    id: PoolId
    slices: tuple[Slice, ...] = ()
    """Slices with devices for the node, sorted by name."""
    counters: Mapping[tuple[str, str], int] | None = None
    """What the pool's counter sets hold in all; None without the feature."""
    incomplete: bool = False
    invalid: str = ""
    """Why the pool contradicts itself, "" if it does not."""
    field: str = ""
    """Which field is to blame for `invalid`, with the slice's name."""

    @property
    def usable(self) -> bool:
        """Whether devices may be taken from the pool."""
        return not self.incomplete and not self.invalid

    @property
    def binds(self) -> bool:
        """Whether some device has binding conditions; such pools are tried last."""
        return any(device.binding_conditions for piece in self.slices for device in piece.devices)


def pool_on(pool: PoolId, slices: Iterable[Slice], place: NodeInfo, features: Features) -> PoolView | None:
    """Gather a pool for a node; None when it has nothing for the node, or is being replaced by a newer generation."""
    everything = list(slices)
    relevant = [piece for piece in everything if _known(piece, features) and covers(piece, place)]
    if not relevant:
        return None
    generation = max(piece.generation for piece in relevant)
    relevant = [piece for piece in relevant if piece.generation == generation]
    count = relevant[0].count
    others: list[Slice] = []
    if len(relevant) != count:
        if any(piece.generation > generation for piece in everything):
            return None
        here = {id(piece) for piece in relevant}
        same = [piece for piece in everything if piece.generation == generation]
        if len(same) != count:
            return PoolView(pool, incomplete=True)
        others = [piece for piece in same if id(piece) not in here]
    if not features.compatibility_groups and any(
        need.compatibility
        for piece in (*relevant, *others)
        for device in piece.devices
        for need in device.consumes
    ):
        return None
    return _validate(pool, sorted(relevant, key=_order), others, features)


def covers(piece: Slice, place: NodeInfo) -> bool:
    """Say whether the slice has something for the node."""
    if piece.availability.per_device:
        return any(
            device.availability is not None and device.availability.covers(place.name, place.labels)
            for device in piece.devices
        )
    return piece.availability.covers(place.name, place.labels)


def reaches(piece: Slice, device: Device, place: NodeInfo) -> bool:
    """Say whether a device of a relevant slice is available on the node."""
    if not piece.availability.per_device:
        return True
    return device.availability is not None and device.availability.covers(place.name, place.labels)


def _known(piece: Slice, features: Features) -> bool:
    """Say whether the slice may serve a node; without the feature such slices only count (upstream's GatherPools)."""
    return features.partitionable_devices or not (piece.availability.per_device or piece.counter_sets)


def _order(piece: Slice) -> tuple[str, str]:
    return piece.name, piece.uid


def _validate(pool: PoolId, here: Sequence[Slice], others: Sequence[Slice], features: Features) -> PoolView:
    if not features.partitionable_devices:
        return _names(PoolView(pool, tuple(here)))
    counters: dict[tuple[str, str], int] = {}
    sets: set[str] = set()
    for piece in (*here, *others):
        for index, counter_set in enumerate(piece.counter_sets):
            if counter_set.name in sets:
                return PoolView(
                    pool,
                    invalid=f"counter set {counter_set.name} is there twice",
                    field=f"{piece.name}: spec.sharedCounters[{index}].name",
                )
            sets.add(counter_set.name)
            counters.update({(counter_set.name, name): amount.nano for name, amount in counter_set.counters})
    devices = tuple(piece for piece in here if not piece.counter_sets)
    named = _names(PoolView(pool, devices, counters))
    if named.invalid:
        return named
    for piece in (*devices, *others):
        for index, device in enumerate(piece.devices):
            wrong = _unknown_counter(device, sets, counters) if device.consumes else ""
            if wrong:
                return PoolView(
                    pool,
                    invalid=f"device {device.name}: {wrong}",
                    field=f"{piece.name}: spec.devices[{index}].consumesCounters",
                )
    return named


def _names(found: PoolView) -> PoolView:
    seen: set[str] = set()
    for piece in found.slices:
        for index, device in enumerate(piece.devices):
            if device.name in seen:
                return PoolView(
                    found.id,
                    invalid=f"device name {device.name} is there twice",
                    field=f"{piece.name}: spec.devices[{index}].name",
                )
            seen.add(device.name)
    return found


def _unknown_counter(device: Device, sets: set[str], counters: CounterAmounts) -> str:
    if consumption(device).keys() <= counters.keys() and all(
        need.counter_set in sets for need in device.consumes
    ):
        return ""
    for need in device.consumes:
        if need.counter_set not in sets:
            return f"consumes from counter set {need.counter_set}, which the pool does not have"
        for name, _ in need.counters:
            if (need.counter_set, name) not in counters:
                return f"consumes counter {name}, which counter set {need.counter_set} does not have"
    return ""


MOST_TAKEN = 65536
_consumed: dict[int, tuple[object, Mapping[tuple[str, str], int]]] = {}


def consumption(device: Device) -> Mapping[tuple[str, str], int]:
    """Return what a device takes from its pool's counters, in 10^-9; not to be changed."""
    # Readers share equal parts of devices. The part is kept beside its id, so that the id stays its own.
    known = _consumed.get(id(device.consumes))
    if known is not None:
        return known[1]
    taken: dict[tuple[str, str], int] = {}
    for need in device.consumes:
        for name, amount in need.counters:
            taken[need.counter_set, name] = taken.get((need.counter_set, name), 0) + amount.nano
    if len(_consumed) >= MOST_TAKEN:
        _consumed.clear()
    _consumed[id(device.consumes)] = device.consumes, taken
    return taken


def amount(nano: int) -> str:
    """Print a counter's amount as a quantity."""
    return str(Quantity(nano, "BinarySI"))
