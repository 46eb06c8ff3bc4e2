"""A device as selectors see it: flat dicts for look-ups of constant names, nested ones for everything else.

In: a Device. Out: `CelDevice`, made once and kept in the device's slot `cel`. The flat attributes are the device's own.
"""

from typing import Any, Final

from apportion.cel.values import Domains, Value
from apportion.dra.device import Device, qualify
from apportion.dra.quantity import Quantity

LONGEST_TEXT: Final = 64
"""Characters of a string attribute (resource.k8s.io `DeviceAttributeMaxValueLength`)."""
LONGEST_LIST: Final = 48
"""Values of a list attribute (resource.k8s.io `ResourceSliceMaxAttributeValuesPerDevice`)."""
MOST_NAMES: Final = 32
"""Attributes and capacities of a device (resource.k8s.io)."""


class CelDevice:
    """One device as selectors see it."""

    __slots__ = ("_device", "_value", "capacity", "within_limits")

    def __init__(self, device: Device) -> None:
        self._device = device
        self._value: dict[str, Value] | None = None
        self.capacity: dict[str, Quantity] = {
            qualify(name, device.driver): capacity.value for name, capacity in device.capacity.items()
        }
        """By full name."""
        self.within_limits: bool = _keeps_limits(device, self.capacity)
        """Whether the device keeps the API's limits, from which the fast form's cost bound is computed."""

    @property
    def value(self) -> dict[str, Value]:
        """The CEL value of the variable `device`."""
        if self._value is None:
            device = self._device
            self._value = {
                "driver": device.driver,
                "allowMultipleAllocations": device.shareable,
                "attributes": _by_domain(device.attributes),
                "capacity": _by_domain(self.capacity),
            }
        return self._value


def cel_device(device: Device) -> CelDevice:
    """Return the device as selectors see it, made on first use."""
    kept = device.cel
    if type(kept) is not CelDevice:
        kept = CelDevice(device)
        # The device is frozen, and the slot caches what its other fields say.
        object.__setattr__(device, "cel", kept)
    return kept


def _by_domain(flat: Any) -> Domains:
    nested = Domains()
    for name, value in flat.items():
        domain, _, short = name.partition("/")
        nested.setdefault(domain, {})[short] = value
    return nested


def _keeps_limits(device: Device, capacity: dict[str, Quantity]) -> bool:
    return (
        len(device.attributes) + len(capacity) <= MOST_NAMES
        and len(device.driver) <= LONGEST_TEXT
        and all(_fits_limits(value) for value in device.attributes.values())
    )


def _fits_limits(value: Value) -> bool:
    if type(value) is str:
        return len(value) <= LONGEST_TEXT
    if type(value) is tuple:
        return len(value) <= LONGEST_LIST and all(map(_fits_limits, value))
    return True
