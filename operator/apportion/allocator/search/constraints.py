"""Constraints while devices are being chosen (matchAttribute, distinctAttribute).

In: the devices chosen so far. Out: the devices that may still join. A match is solved by its attribute's values: the
values that all chosen devices share are live, and whoever holds a live value may join.
"""

from collections.abc import Mapping

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.attributes import AttributeValue
from apportion.allocator.rules.query import AttributeConstraint


class ConstraintState:
    """One constraint during one search."""

    __slots__ = ("_kept", "chosen", "distinct", "live", "mask", "of", "values")

    def __init__(self, constraint: AttributeConstraint, view: NodeView) -> None:
        self.distinct = constraint.distinct
        found = view.attribute_index(constraint.attribute)
        self.values: Mapping[AttributeValue, int] = found.values
        self.mask = found.mask
        """Devices that may join now."""
        self.of: Mapping[int, tuple[AttributeValue, ...]] = found.of
        self.live: set[AttributeValue] = set(self.values)
        self.chosen = 0
        self._kept: list[tuple[int, set[AttributeValue]]] = []

    def add(self, index: int) -> None:
        """Let a device join that may."""
        self._kept.append((self.mask, self.live))
        own = self.of[index]
        if self.distinct:
            for atom in own:
                self.mask &= ~self.values[atom]
        else:
            self.live = self.live.intersection(own)
            self.mask &= sum_of(self.values, self.live)
        self.chosen += 1

    def remove(self) -> None:
        """Take back the last one that joined."""
        self.mask, self.live = self._kept.pop()
        self.chosen -= 1

    def narrow(self, atoms: set[AttributeValue]) -> None:
        """Before anything is chosen: only these values can lead to a solution."""
        self.live = atoms
        self.mask &= sum_of(self.values, atoms)


def sum_of(values: Mapping[AttributeValue, int], atoms: set[AttributeValue]) -> int:
    """Return the devices that hold one of the atoms."""
    mask = 0
    for atom in atoms:
        mask |= values[atom]
    return mask
