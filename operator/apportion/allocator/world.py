"""World: nodes, classes, slices, claims and existing allocations in one JSON object.

In: decoded JSON as users write it for `apportion allocate`. Out: a state and a demand, or BrokenInput that names the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from apportion.allocator.demand import Demand
from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.rules.selectors import Selectors
from apportion.allocator.state import State
from apportion.dra import reading
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json
from apportion.dra.slice import Slice
from apportion.dra.taintrule import DeviceTaintRule
from apportion.errors import BrokenInput

FIELDS = frozenset(("allocated", "claims", "classes", "features", "node", "nodes", "slices", "taintRules"))
"""What a world has; not all of it has to be there."""


@dataclass(frozen=True, slots=True)
class World:
    """The state and the demand that a JSON object describes."""

    state: State
    demand: Demand
    findings: tuple[str, ...] = ()
    """Claims that are allocated already and are no part of the demand."""


def read_world(raw: Any, programs: Selectors | None = None) -> World:
    """Read a world.

    Fields: `nodes` (or `node`), `classes`, `slices`, `claims`; optional `allocated` {devices, shared, capacity},
    `features`, `taintRules`. Without nodes, every node that a slice names exists, without labels; if none is named, one
    node without a name. Claims with a `status.allocation` hold their devices and are no part of the demand.

    Raises BrokenInput with the field's path.
    """
    if not isinstance(raw, Mapping):
        raise BrokenInput(
            f"expected an object with nodes, classes, slices and claims, found {type(raw).__name__}"
        )
    features = raw.get("features")
    state = State(
        Features.from_json(reading.table(raw, "features")) if features is not None else DEFAULT_FEATURES,
        programs,
    )
    slices = [_at(path, Slice.from_json, row) for path, row in reading.rows(raw, "slices")]
    _nodes(raw, state, slices)
    for path, row in reading.rows(raw, "classes"):
        state.put_class(_at(path, DeviceClass.from_json, row))
    for number, piece in enumerate(slices):
        # Slices of a world may have equal names, or no UID: their position identifies them.
        state.put_slice(replace(piece, uid=f"slices[{number}]"))
    for path, row in reading.rows(raw, "taintRules"):
        state.put_taint_rule(_at(path, DeviceTaintRule.from_json, row))
    _allocated(reading.table(raw, "allocated"), state)
    pending, allocated = [], []
    for number, (path, row) in enumerate(reading.rows(raw, "claims")):
        claim = _at(path, Claim.from_json, row)
        if claim.allocation is None:
            pending.append(claim)
        else:
            allocated.append(claim.key)
            state.hold(f"claims[{number}] {claim.key}", claim.allocation.results)
    return World(state, Demand(tuple(pending)), tuple(allocated))


def _nodes(raw: Json, state: State, slices: list[Slice]) -> None:
    rows = list(reading.rows(raw, "nodes"))
    if raw.get("node") is not None:
        rows.append(("node", reading.table(raw, "node")))
    for path, row in rows:
        metadata = reading.table(row, "metadata", at=path)
        inside = f"{path}.metadata"
        labels = reading.table(metadata, "labels", at=inside)
        state.put_node(
            reading.text(metadata, "name", at=inside, default=""),
            {key: reading.text(labels, key, at=f"{inside}.labels") for key in labels},
            reading.words(reading.table(row, "status", at=path), "declaredFeatures", at=f"{path}.status"),
        )
    if not rows:
        named = {piece.availability.node for piece in slices if piece.availability.node}
        named |= {
            device.availability.node
            for piece in slices
            for device in piece.devices
            if device.availability is not None and device.availability.node
        }
        for name in sorted(named) or [""]:
            state.put_node(name, {})


def _allocated(raw: Json, state: State) -> None:
    for number, (path, row) in enumerate(reading.rows(raw, "devices", at="allocated")):
        state.hold(f"allocated.devices[{number}]", (DeviceResult("", _device(row, path)),))
    capacity = [*reading.rows(raw, "capacity", at="allocated")]
    counted = {_device(row, path) for path, row in capacity}
    for number, (path, row) in enumerate(reading.rows(raw, "shared", at="allocated")):
        device = _device(row, path)
        share = reading.text(row, "shareID", at=path, default="") or f"share-{number}"
        if device not in counted:
            state.hold(f"allocated.shared[{number}]", (DeviceResult("", device, share_id=share),))
    for number, (path, row) in enumerate(capacity):
        consumed = {
            name: _quantity(amount, f"{path}.consumed.{name}")
            for name, amount in reading.table(row, "consumed", at=path).items()
        }
        result = DeviceResult("", _device(row, path), share_id=f"capacity-{number}", consumed=consumed)
        state.hold(f"allocated.capacity[{number}]", (result,))


def _device(row: Json, path: str) -> DeviceId:
    return DeviceId(
        reading.text(row, "driver", at=path),
        reading.text(row, "pool", at=path),
        reading.text(row, "device", at=path),
    )


def _quantity(raw: Any, path: str) -> Quantity:
    try:
        return Quantity.parse(raw)
    except BrokenInput as error:
        raise BrokenInput(error.reason, field=path) from None


def _at(path: str, read: Any, row: Json) -> Any:
    try:
        return read(row)
    except BrokenInput as error:
        raise BrokenInput(error.reason, field=f"{path}.{error.field}" if error.field else path) from None
