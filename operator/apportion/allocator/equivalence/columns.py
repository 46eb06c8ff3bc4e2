"""Columns: the values of one attribute or capacity on all devices of a node.

In: devices. Out: a tuple of values per full name; on nodes with equal tuples every selector has equal results.
"""

from collections.abc import Sequence
from typing import TypeAlias

from apportion.allocator.rules.selectors import capacity_of
from apportion.dra.device import Device
from apportion.dra.semver import Semver

Column: TypeAlias = tuple[object, ...]


def columns_of(devices: Sequence[Device]) -> dict[str, Column]:
    """Return the columns of the devices by the full name of the attribute or capacity."""
    size = len(devices)
    found: dict[str, list[object]] = {}
    # The slice reader shares equal attributes and capacities, so most are read once for many devices.
    indexes_by_content: dict[tuple[int, int], list[int]] = {}
    for index, device in enumerate(devices):
        indexes_by_content.setdefault((id(device.attributes), id(device.capacity)), []).append(index)
    for indexes in indexes_by_content.values():
        device = devices[indexes[0]]
        values: dict[str, object] = {
            name: value if value.__class__ is str else _plain(value)
            for name, value in device.attributes.items()
        }
        for own in device.capacity:
            name, amount = capacity_of(device, own)
            # An attribute and a capacity may have the same name.
            values[name] = ("both", values[name], amount) if name in values else ("amount", amount)
        for name, value in values.items():
            column = found.get(name)
            if column is None:
                column = found[name] = [None] * size
            for index in indexes:
                column[index] = value
    return {name: tuple(column) for name, column in found.items()}


def _plain(value: object) -> object:
    """Return a hashable value; two are equal only if no selector can distinguish the originals."""
    if isinstance(value, tuple):
        return "list", tuple(_plain(entry) for entry in value)
    return type(value).__name__, value.text if isinstance(value, Semver) else value


def partition(column: Column) -> Column:
    """Replace values by the number of their first occurrence: equal results mean that the same devices agree."""
    if any(value.__class__ is tuple and value[0] in _COMPOUND for value in column):
        return column
    names: dict[object, int] = {None: -1}
    return tuple(names.setdefault(value, len(names)) for value in column)


_COMPOUND = frozenset(["list", "both"])
"""Lists can overlap without being equal, so columns with lists stay as they are."""
