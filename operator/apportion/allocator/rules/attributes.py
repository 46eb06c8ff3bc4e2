"""AttributeIndex: the devices of a node by their values of one attribute.

In: devices and an attribute name. Out: a device mask per value, and the values per device; a device with a list is
in the mask of every entry.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.rules.features import Features
from apportion.dra.device import Attribute, Device
from apportion.dra.semver import Semver

AttributeValue: TypeAlias = tuple[str, object]
"""A typed attribute value; versions are compared by their text, as upstream does."""


class AttributeIndex:
    """Devices by value. Nodes share it, so it must not be changed."""

    __slots__ = ("_held", "_of", "mask", "values")

    def __init__(self, name: str, devices: Sequence[Device], base: int, features: Features) -> None:
        self.values: dict[AttributeValue, int] = {}
        self.mask = 0
        """Devices that have a value."""
        self._of: dict[int, tuple[AttributeValue, ...]] = {}
        # The slice reader shares equal attribute maps, so most values are read once for many devices.
        masks: dict[int, int] = {}
        for index in bits(base):
            shared = id(devices[index].attributes)
            masks[shared] = masks.get(shared, 0) | 1 << index
        held: dict[tuple[AttributeValue, ...], int] = {}
        for mask in masks.values():
            first = devices[(mask & -mask).bit_length() - 1]
            own = attribute_values(first.attribute(name), features)
            if own:
                held[own] = held.get(own, 0) | mask
        self._held = held
        for own, mask in held.items():
            self.mask |= mask
            for value in own:
                self.values[value] = self.values.get(value, 0) | mask

    @property
    def of(self) -> Mapping[int, tuple[AttributeValue, ...]]:
        """Return the values by device. Computed on first use, because only constraints read it."""
        if not self._of:
            self._of = {index: own for own, mask in self._held.items() for index in bits(mask)}
        return self._of


def attribute_values(value: Attribute | None, features: Features) -> tuple[AttributeValue, ...]:
    """Return the typed values of an attribute: none if it is absent, or a list while the feature is off."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_typed(entry) for entry in value)) if features.list_type_attributes else ()
    return (_typed(value),)


def _typed(value: bool | int | str | Semver) -> AttributeValue:  # noqa: FBT001 - an attribute may be a boolean
    return type(value).__name__, value.text if isinstance(value, Semver) else value
