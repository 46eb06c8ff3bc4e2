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
        """`base`: the devices to index, as a mask over the positions in `devices`."""
        self.values: dict[AttributeValue, int] = {}
        self.mask = 0
        """Devices that have a value."""
        self._of: dict[int, tuple[AttributeValue, ...]] = {}
        masks: dict[str | int, int] = {}
        firsts: dict[str | int, Attribute] = {}
        bit = 1
        for device in devices:
            value = device.attributes.get(name)
            if value is not None and base & bit:
                # By identity, because values of different types can be equal; the slice reader shares equal ones.
                key = value if isinstance(value, str) else id(value)
                if key in masks:
                    masks[key] |= bit
                else:
                    masks[key], firsts[key] = bit, value
            bit <<= 1
        held: dict[tuple[AttributeValue, ...], int] = {}
        for key, mask in masks.items():
            own = attribute_values(firsts[key], features)
            if own:
                held[own] = held.get(own, 0) | mask
        self._held = held
        for own, mask in held.items():
            self.mask |= mask
            for typed in own:
                self.values[typed] = self.values.get(typed, 0) | mask

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
