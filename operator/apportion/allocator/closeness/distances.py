"""NodeDistances: the levels of a ladder between the devices of a node. Nodes of a class share one object.

In: a view, a ladder. Out: cells (devices with equal values of all rungs and neighbour attributes), the level between
any two cells, and the devices by value for each rung. A device with a list of values counts for the first one.
"""

from collections.abc import Mapping
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.memo import Topic, keep
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.attributes import attribute_values

Edge: TypeAlias = tuple[int, ...]
"""The level between two cells, then for each neighbour attribute whether they agree (1) or not (0)."""

NO_VALUE = -1

MOST_LADDERS = 256
"""Ladders whose distances a node class keeps."""


class NodeDistances:
    """Levels between devices."""

    __slots__ = ("around", "cell_of", "cells", "edges", "far", "groups", "levels", "nested")

    def __init__(self, view: NodeView, ladder: Ladder) -> None:
        self.far = len(ladder.rungs)
        """The level of devices that agree on no rung."""
        numbers = [_value_numbers(view, rung) for rung in ladder.rungs]
        around = [_value_numbers(view, Rung(attribute)) for attribute in NEIGHBOUR_ATTRIBUTES]
        self.groups: tuple[tuple[int, ...], ...] = tuple(_groups(found) for found in numbers)
        """By rung: a device mask per value, in the order of the first device."""
        cells: dict[tuple[int, ...], int] = {}
        self.cell_of: dict[int, int] = {}
        for index in bits(view.base):
            values = tuple(found.get(index, NO_VALUE) for found in (*numbers, *around))
            self.cell_of[index] = cells.setdefault(values, len(cells))
        self.cells = [0] * len(cells)
        """The devices of every cell."""
        for index, cell in self.cell_of.items():
            self.cells[cell] |= 1 << index
        self.levels = [[self._level(one, other) for other in cells] for one in cells]
        self.edges: list[list[Edge]] = [
            [
                (
                    self.levels[a][b],
                    *(int(x == y) for x, y in zip(one[self.far :], other[self.far :], strict=True)),
                )
                for b, other in enumerate(cells)
            ]
            for a, one in enumerate(cells)
        ]

        every = range(len(cells))
        self.around: list[list[tuple[int, ...]]] = [
            [tuple(b for b in every if a == b or self.levels[a][b] <= level) for a in every]
            for level in range(self.far)
        ]
        """By level and cell: the cells on this level or closer, with the cell itself."""
        self.nested = [sum(map(len, set(found))) == len(found) for found in self.around]
        """By level: whether cells on this level of one cell are also on this level of each other."""

    def level(self, one: int, other: int) -> int:
        """Return the level of two devices: the first rung on which they agree; 0 for shares of one device."""
        return 0 if one == other else self.levels[self.cell_of[one]][self.cell_of[other]]

    def _level(self, one: tuple[int, ...], other: tuple[int, ...]) -> int:
        pairs = zip(one[: self.far], other[: self.far], strict=True)
        return next((rung for rung, (x, y) in enumerate(pairs) if x == y != NO_VALUE), self.far)


DISTANCES: Topic[Ladder, NodeDistances] = Topic("distances", MOST_LADDERS)


def distances_on(view: NodeView, ladder: Ladder) -> NodeDistances:
    """Return the distances on a node. Its class keeps them if they are equal on all its nodes."""
    shared = view.node_class
    # A class knows which devices agree in a per-node attribute, not whether they agree with another attribute.
    if (
        shared is None
        or not shared.agrees(ladder.names)
        or not all(shared.shares(name) for name in ladder.mixed)
    ):
        return NodeDistances(view, ladder)
    kept = shared.memo(DISTANCES)
    found = kept.get(ladder)
    if found is None:
        found = keep(kept, ladder, NodeDistances(view, ladder), DISTANCES.most)
    return found


def _value_numbers(view: NodeView, rung: Rung) -> Mapping[int, int]:
    """Return a number per device, equal for equal values; devices without a value are left out."""
    numbers: dict[object, int] = {}
    found: dict[int, int] = {}
    for index in bits(view.base):
        device = view.devices[index]
        name = rung.name_for(device.driver)
        values = attribute_values(device.attribute(name), view.features) if name is not None else ()
        if values:
            key = (name if rung.apart else None, values[0])
            found[index] = numbers.setdefault(key, len(numbers))
    return found


def _groups(numbers: Mapping[int, int]) -> tuple[int, ...]:
    masks: dict[int, int] = {}
    for index, number in numbers.items():
        masks[number] = masks.get(number, 0) | 1 << index
    return tuple(masks.values())
