"""The capacity of a device: amounts, and how requests consume them (resource.k8s.io/v1 `DeviceCapacity`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apportion.dra import reading
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How amounts of a capacity are rounded and bounded (API `CapacityRequestPolicy`)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    minimum: Quantity | None = None
    """Set when the policy is a range (`validRange.min`)."""
    maximum: Quantity | None = None
    step: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """An amount that a device has, and how requests consume it."""

    value: Quantity
    policy: RequestPolicy | None = None


def capacities_from_json(raw: Any, at: str) -> Mapping[str, Capacity]:
    """Read the map `capacity`, so that a qualified name comes after the same one without a domain. Raises BrokenInput, which names the field."""
    found = reading.table({"capacity": raw}, "capacity", at=at)
    inside = reading.join(at, "capacity")
    return {
        name: _capacity(reading.table(found, name, at=inside), f"{inside}[{name}]")
        for name in qualified_last(found)
    }


def qualified_last(names: Iterable[str]) -> list[str]:
    """Return names so that a qualified one wins over the same name without a domain, whatever their order (`lookupAttribute`)."""
    return sorted(names, key=lambda name: "/" in name)


def _capacity(raw: Json, at: str) -> Capacity:
    policy = reading.table(raw, "requestPolicy", at=at)
    if not policy:
        return Capacity(quantity_at(raw, "value", at))
    inside = reading.join(at, "requestPolicy")
    bounds = reading.table(policy, "validRange", at=inside)
    return Capacity(
        quantity_at(raw, "value", at),
        RequestPolicy(
            default=_optional(policy, "default", inside),
            valid_values=tuple(
                _parse(value, path) for path, value in reading.items(policy, "validValues", at=inside)
            ),
            minimum=_optional(bounds, "min", inside) or (Quantity(0) if bounds else None),
            maximum=_optional(bounds, "max", inside),
            step=_optional(bounds, "step", inside),
        ),
    )


def quantity_at(raw: Json, key: str, at: str) -> Quantity:
    """Return the amount at a key. Raises BrokenInput where there is none."""
    if key not in raw:
        raise BrokenInput("missing", field=reading.join(at, key))
    return _parse(raw[key], reading.join(at, key))


def _optional(raw: Json, key: str, at: str) -> Quantity | None:
    return _parse(raw[key], reading.join(at, key)) if raw.get(key) is not None else None


def _parse(raw: Any, at: str) -> Quantity:
    if not isinstance(raw, str | int | float) or isinstance(raw, bool):
        raise BrokenInput("expected a quantity", field=at)
    try:
        return Quantity.parse(raw)
    except BrokenInput as error:
        raise BrokenInput(error.reason, field=at) from None
