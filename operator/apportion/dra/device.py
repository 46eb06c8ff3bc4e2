"""A device as its driver publishes it in a ResourceSlice (resource.k8s.io/v1 `Device`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from apportion.dra import reading
from apportion.dra.capacity import Capacity, capacities_from_json, qualified_last, quantity_at
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json, Sharing
from apportion.dra.selection import Availability
from apportion.dra.semver import UNBOUNDED, Semver
from apportion.dra.taint import Taint
from apportion.errors import BrokenInput

Scalar: TypeAlias = bool | int | str | Semver
Attribute: TypeAlias = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """What a device takes from one counter set of its pool."""

    counter_set: str
    counters: tuple[tuple[str, Quantity], ...]
    compatibility: tuple[str, ...] = ()
    """API `compatibilityGroups` (alpha in 1.37)."""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device. Immutable; compared by identity, because a device belongs to one version of a slice."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """By fully qualified name; an unqualified one is filed under the driver's (API `QualifiedName`)."""
    unsupported: tuple[str, ...] = ()
    """Attributes that selectors cannot read, each as `NAME: REASON` with its name in the slice: all selectors fail on the device, as upstream."""
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    """By the name in the slice; `qualify` gives the full one."""
    consumes: tuple[CounterConsumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    shareable: bool = False
    """API `allowMultipleAllocations`."""
    availability: Availability | None = None
    """Only in slices with perDeviceNodeSelection."""
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of optional API features, undecoded (compatibilityGroups and the like)."""
    cel: object = field(default=None, init=False, repr=False)
    """Slot for the device as selectors see it; `apportion.cel.evaluate.device` fills it on first use."""

    @property
    def id(self) -> "DeviceId":
        """The device's name in allocations."""
        return DeviceId(self.driver, self.pool, self.name)

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of this fully qualified name, None when the device has none."""
        return self.attributes.get(name)

    @classmethod
    def from_json(cls, raw: Json, *, driver: str, pool: str, at: str = "") -> "Device":
        """Read a device of a slice; raises BrokenInput naming the field."""
        attributes, unsupported = _ATTRIBUTES.read(
            (driver, raw.get("attributes")), at, lambda pair, path: _attributes(pair[1], driver, path)
        )
        capacity = raw.get("capacity")
        consumes = raw.get("consumesCounters")
        name = raw.get("name")
        if name.__class__ is not str:
            name = reading.text(raw, "name", at=at)
        if raw.keys() <= _COMMON:
            return cls(
                driver,
                pool,
                name,
                attributes,
                unsupported,
                _CAPACITY.read(capacity, at, capacities_from_json) if capacity is not None else {},
                _CONSUMES.read(consumes, at, consumptions_from_json) if consumes is not None else (),
            )
        taints = raw.get("taints")
        has_place = any(key in raw for key in ("nodeName", "allNodes", "nodeSelector"))
        return cls(
            driver=driver,
            pool=pool,
            name=name,
            attributes=attributes,
            unsupported=unsupported,
            capacity=_CAPACITY.read(capacity, at, capacities_from_json) if capacity is not None else {},
            consumes=_CONSUMES.read(consumes, at, consumptions_from_json) if consumes is not None else (),
            taints=_TAINTS.read(taints, at, _taints) if taints is not None else (),
            shareable=reading.flag(raw, "allowMultipleAllocations", at=at),
            availability=Availability.from_json(raw, at) if has_place else None,
            binds_to_node=reading.flag(raw, "bindsToNode", at=at),
            binding_conditions=reading.words(raw, "bindingConditions", at=at),
            binding_failure_conditions=reading.words(raw, "bindingFailureConditions", at=at),
            extra={key: value for key, value in raw.items() if key not in _KNOWN},
        )


_COMMON = frozenset(["name", "attributes", "capacity", "consumesCounters"])
"""Most devices have no other fields."""
_KNOWN = _COMMON | {
    "taints",
    "allowMultipleAllocations",
    "nodeName",
    "allNodes",
    "nodeSelector",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
}

Attributes: TypeAlias = tuple[Mapping[str, Attribute], tuple[str, ...]]

_ATTRIBUTES: Sharing[Attributes] = Sharing()
_CAPACITY: Sharing[Mapping[str, Capacity]] = Sharing()
_CONSUMES: Sharing[tuple[CounterConsumption, ...]] = Sharing()
_TAINTS: Sharing[tuple[Taint, ...]] = Sharing()


class DeviceId(NamedTuple):
    """Driver, pool and name: unique in the cluster. A named tuple hashes five times faster than a dataclass."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@lru_cache(maxsize=4096)
def qualify(name: str, driver: str) -> str:
    """Return the full name of an attribute or capacity: an unqualified one belongs to the driver's domain."""
    return name if "/" in name else f"{driver}/{name}"


def _attributes(raw: Any, driver: str, at: str) -> Attributes:
    own = reading.table({"attributes": raw}, "attributes", at=at)
    attributes: dict[str, Attribute] = {}
    unsupported: list[str] = []
    for name in qualified_last(own):
        entry = own[name]
        value: Attribute | None
        if entry.__class__ is dict and len(entry) == 1 and (text := entry.get("string")).__class__ is str:
            # Drivers repeat models, versions and UUIDs of cards on every device.
            value = intern(text)
        else:
            value = _attribute(entry, f"{at}.attributes[{name}]")
        if value is None:
            unsupported.append(f"{name}: unsupported attribute value")
            attributes.pop(qualify(name, driver), None)
        else:
            attributes[qualify(name, driver)] = value
            if not _bounded(value):
                # Constraints compare its text.
                unsupported.append(f"{name}: parse semantic version: {UNBOUNDED}")
    return attributes, tuple(unsupported)


def consumptions_from_json(raw: Any, at: str = "") -> tuple[CounterConsumption, ...]:
    """Read the list `consumesCounters`."""
    return tuple(
        _consumption(row, path)
        for path, row in reading.rows({"consumesCounters": raw}, "consumesCounters", at=at)
    )


def _taints(raw: Any, at: str) -> tuple[Taint, ...]:
    return tuple(Taint.from_json(row, path) for path, row in reading.rows({"taints": raw}, "taints", at=at))


def counters_from_json(raw: Json, at: str = "") -> tuple[tuple[str, Quantity], ...]:
    """Read a map of counters, sorted by name."""
    found = reading.table(raw, "counters", at=at)
    return tuple(
        (
            name,
            quantity_at(reading.table(found, name, at=f"{at}.counters"), "value", f"{at}.counters[{name}]"),
        )
        for name in sorted(found)
    )


def _consumption(raw: Json, at: str) -> CounterConsumption:
    return CounterConsumption(
        reading.text(raw, "counterSet", at=at),
        counters_from_json(raw, at),
        reading.words(raw, "compatibilityGroups", at=at),
    )


def _attribute(raw: Any, at: str) -> Attribute | None:
    """Read a `DeviceAttribute`; None when it holds no type that this version knows (the API's rule for unions)."""
    if not isinstance(raw, Mapping):
        raise BrokenInput("expected an object with one typed value", field=at)
    for kind, value in raw.items():
        if value is None:
            continue
        match kind:
            case "bool" if isinstance(value, bool):
                return value
            case "int" if isinstance(value, int) and not isinstance(value, bool):
                return value
            case "string" if isinstance(value, str):
                return value
            case "version" if isinstance(value, str):
                return _version(value, at)
            case "bools" | "ints" | "strings" if isinstance(value, list):
                return tuple(value)
            case "versions" if isinstance(value, list):
                return tuple(_version(entry, at) for entry in value)
            case "bool" | "int" | "string" | "version" | "bools" | "ints" | "strings" | "versions":
                raise BrokenInput(f"expected a value of type {kind}", field=at)
            case _:
                continue
    return None


def _bounded(value: Attribute) -> bool:
    """Say whether no version of the value has a number that selectors cannot read."""
    if isinstance(value, tuple):
        return all(map(_bounded, value))
    return not isinstance(value, Semver) or value.bounded


def _version(raw: str, at: str) -> Semver:
    try:
        return Semver.of_any_size(raw)
    except BrokenInput as error:
        raise BrokenInput(error.reason, field=at) from None
