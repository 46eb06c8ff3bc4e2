"""One attribute on a node: which devices hold which value.

In: devices and a name. Out: bits of devices per value, and values per device; a list puts its device under every entry.
"""

from collections.abc import Sequence
from typing import TypeAlias

from apportion.allocator.counters import bits
from apportion.allocator.features import Features
from apportion.dra.device import Attribute, Device
from apportion.dra.semver import Semver

Atom: TypeAlias = tuple[str, object]
"""A typed attribute value; versions are compared by their text, as upstream does."""


class Rows:
    """Devices by value. Shared: not to be changed."""

    __slots__ = ("mask", "of", "values")

    def __init__(self, name: str, devices: Sequence[Device], base: int, features: Features) -> None:
        self.values: dict[Atom, int] = {}
        self.of: dict[int, tuple[Atom, ...]] = {}
        """Values by device."""
        self.mask = 0
        """Devices that have a value."""
        for index in bits(base):
            held = atoms(devices[index].attribute(name), features)
            if held:
                self.of[index] = held
                self.mask |= 1 << index
            for atom in held:
                self.values[atom] = self.values.get(atom, 0) | 1 << index


def atoms(value: Attribute | None, features: Features) -> tuple[Atom, ...]:
    """Return the typed values of an attribute: none if it is absent, or a list while the feature is off."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_atom(entry) for entry in value)) if features.list_type_attributes else ()
    return (_atom(value),)


def _atom(value: bool | int | str | Semver) -> Atom:  # noqa: FBT001 - an attribute may be a boolean
    return type(value).__name__, value.text if isinstance(value, Semver) else value
