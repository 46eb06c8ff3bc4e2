"""What selectors see of a device: flat dicts for constant look-ups, nested ones for everything else.

In: a Device. Out: `Facts`, made once and kept in the device's own slot. The flat attributes are the device's.
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


class Facts:
    """One device as selectors see it."""

    __slots__ = ("_device", "_value", "capacity", "usual")

    def __init__(self, device: Device) -> None:
        self._device = device
        self._value: dict[str, Value] | None = None
        self.capacity: dict[str, Quantity] = {
            qualify(name, device.driver): capacity.value for name, capacity in device.capacity.items()
        }
        """By full name."""
        self.usual: bool = _keeps_limits(device, self.capacity)
        """Whether the device keeps the API's limits, on which the fast path's cost bound rests."""

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


def facts(device: Device) -> Facts:
    """Return the device's facts, made on first use."""
    kept = device.facts
    if type(kept) is not Facts:
        kept = Facts(device)
        # The slot is a cache of what the frozen fields already say.
        object.__setattr__(device, "facts", kept)
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
        and all(_usual(value) for value in device.attributes.values())
    )


def _usual(value: Value) -> bool:
    if type(value) is str:
        return len(value) <= LONGEST_TEXT
    if type(value) is tuple:
        return len(value) <= LONGEST_LIST and all(map(_usual, value))
    return True
