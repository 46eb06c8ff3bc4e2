"""One attribute on a node: which devices hold which value.

In: devices and a name. Out: bits of devices per value, and values per device; a list puts its device under every entry.
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
    """Devices by value. Shared: not to be changed."""

    __slots__ = ("_held", "_of", "mask", "values")

    def __init__(self, name: str, devices: Sequence[Device], base: int, features: Features) -> None:
        self.values: dict[AttributeValue, int] = {}
        self.mask = 0
        """Devices that have a value."""
        self._of: dict[int, tuple[AttributeValue, ...]] = {}
        # Readers share equal parts of devices, so most values are read once for many devices.
        alike: dict[int, int] = {}
        for index in bits(base):
            part = id(devices[index].attributes)
            alike[part] = alike.get(part, 0) | 1 << index
        held: dict[tuple[AttributeValue, ...], int] = {}
        for mask in alike.values():
            first = devices[(mask & -mask).bit_length() - 1]
            own = attribute_values(first.attribute(name), features)
            if own:
                held[own] = held.get(own, 0) | mask
        self._held = held
        for own, mask in held.items():
            self.mask |= mask
            for atom in own:
                self.values[atom] = self.values.get(atom, 0) | mask

    @property
    def of(self) -> Mapping[int, tuple[AttributeValue, ...]]:
        """Return the values by device: constraints ask for them, layouts do not."""
        if not self._of:
            self._of = {index: own for own, mask in self._held.items() for index in bits(mask)}
        return self._of


def attribute_values(value: Attribute | None, features: Features) -> tuple[AttributeValue, ...]:
    """Return the typed values of an attribute: none if it is absent, or a list while the feature is off."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_atom(entry) for entry in value)) if features.list_type_attributes else ()
    return (_atom(value),)


def _atom(value: bool | int | str | Semver) -> AttributeValue:  # noqa: FBT001 - an attribute may be a boolean
    return type(value).__name__, value.text if isinstance(value, Semver) else value
