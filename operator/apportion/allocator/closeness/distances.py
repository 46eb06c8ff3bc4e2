"""Where the devices of a node sit on a ladder; the same for all nodes of a kind.

In: a view, a ladder. Out: cells (devices that no rung tells apart), the level between any two of them, and the devices
by value, rung by rung. Agreement on a rung is by one value: a device that lists several counts for the first, its own.
"""

from collections.abc import Mapping
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.memo import Topic
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.attributes import attribute_values

Edge: TypeAlias = tuple[int, ...]
"""The level between two cells, then on which neighbourhoods they agree."""

NOWHERE = -1

MOST_LADDERS = 256
"""Ladders whose distances a node class keeps."""


class NodeDistances:
    """Levels between devices."""

    __slots__ = ("around", "cell_of", "cells", "edges", "far", "groups", "levels", "nested")

    def __init__(self, view: NodeView, ladder: Ladder) -> None:
        self.far = len(ladder.rungs)
        """The level of devices that no rung joins."""
        occupancies = [_occupancies(view, rung) for rung in ladder.rungs]
        around = [_occupancies(view, Rung(attribute)) for attribute in NEIGHBOUR_ATTRIBUTES]
        self.groups: tuple[tuple[int, ...], ...] = tuple(_groups(found) for found in occupancies)
        """By rung: the devices of every value, in the order of the first of them."""
        places: dict[tuple[int, ...], int] = {}
        self.cell_of: dict[int, int] = {}
        for index in bits(view.base):
            place = tuple(found.get(index, NOWHERE) for found in (*occupancies, *around))
            self.cell_of[index] = places.setdefault(place, len(places))
        self.cells = [0] * len(places)
        """The devices of every cell."""
        for index, cell in self.cell_of.items():
            self.cells[cell] |= 1 << index
        self.levels = [[self._level(one, other) for other in places] for one in places]
        self.edges: list[list[Edge]] = [
            [
                (
                    self.levels[a][b],
                    *(int(x == y) for x, y in zip(one[self.far :], other[self.far :], strict=True)),
                )
                for b, other in enumerate(places)
            ]
            for a, one in enumerate(places)
        ]

        every = range(len(places))
        self.around: list[list[tuple[int, ...]]] = [
            [tuple(b for b in every if a == b or self.levels[a][b] <= level) for a in every]
            for level in range(self.far)
        ]
        """By level and cell: the cells that are at least so close, itself among them."""
        self.nested = [sum(map(len, set(found))) == len(found) for found in self.around]
        """By level: whether cells that are so close to one are so close to each other."""

    def level(self, one: int, other: int) -> int:
        """Return how close two devices are: the first rung that joins them; shares of one device are closest."""
        return 0 if one == other else self.levels[self.cell_of[one]][self.cell_of[other]]

    def _level(self, one: tuple[int, ...], other: tuple[int, ...]) -> int:
        pairs = zip(one[: self.far], other[: self.far], strict=True)
        return next((rung for rung, (x, y) in enumerate(pairs) if x == y != NOWHERE), self.far)


DISTANCES: Topic[Ladder, NodeDistances] = Topic("distances", MOST_LADDERS)


def distances_on(view: NodeView, ladder: Ladder) -> NodeDistances:
    """Return the distances on a node; its class keeps them where it can tell them."""
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
        found = kept[ladder] = NodeDistances(view, ladder)
    return found


def _occupancies(view: NodeView, rung: Rung) -> Mapping[int, int]:
    """Return the number of every device's value; devices without one are left out."""
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


def _groups(occupancies: Mapping[int, int]) -> tuple[int, ...]:
    masks: dict[int, int] = {}
    for index, number in occupancies.items():
        masks[number] = masks.get(number, 0) | 1 << index
    return tuple(masks.values())
