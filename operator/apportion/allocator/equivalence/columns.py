"""Columns: what the devices of a node hold in one attribute or capacity, device by device.

In: devices. Out: a tuple of values per full name; equal tuples mean that no selector sees a difference.
"""

from collections.abc import Sequence
from typing import TypeAlias

from apportion.allocator.rules.selectors import capacity_of
from apportion.dra.device import Device
from apportion.dra.semver import Semver

Column: TypeAlias = tuple[object, ...]


def columns_of(devices: Sequence[Device]) -> dict[str, Column]:
    """Return what the node's devices hold, by the full name of the attribute or capacity."""
    size = len(devices)
    found: dict[str, list[object]] = {}
    # Readers share equal parts of devices, so most are looked at once for many devices.
    alike: dict[tuple[int, int], list[int]] = {}
    for index, device in enumerate(devices):
        alike.setdefault((id(device.attributes), id(device.capacity)), []).append(index)
    for places in alike.values():
        device = devices[places[0]]
        values: dict[str, object] = {
            name: value if value.__class__ is str else _plain(value)
            for name, value in device.attributes.items()
        }
        for own in device.capacity:
            name, amount = capacity_of(device, own)
            # An attribute and a capacity may have one name.
            values[name] = ("both", values[name], amount) if name in values else ("amount", amount)
        for name, value in values.items():
            column = found.get(name)
            if column is None:
                column = found[name] = [None] * size
            for index in places:
                column[index] = value
    return {name: tuple(column) for name, column in found.items()}


def _plain(value: object) -> object:
    """Return something hashable that differs wherever a selector could see a difference."""
    if isinstance(value, tuple):
        return "list", tuple(_plain(entry) for entry in value)
    return type(value).__name__, value.text if isinstance(value, Semver) else value


def partition(column: Column) -> Column:
    """Rename values by their first place, so that only agreement is left."""
    if any(value.__class__ is tuple and value[0] in _COMPOUND for value in column):
        return column
    names: dict[object, int] = {None: -1}
    return tuple(names.setdefault(value, len(names)) for value in column)


_COMPOUND = frozenset(["list", "both"])
"""Lists overlap without being equal, so they are not renamed."""
