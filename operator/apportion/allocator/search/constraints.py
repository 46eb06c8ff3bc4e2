"""Constraints during a search (matchAttribute, distinctAttribute).

In: the devices chosen so far. Out: the devices that may be chosen next. For a match, the values that all chosen devices
share are live, and every device with a live value may be chosen.
"""

from collections.abc import Mapping

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.attributes import AttributeValue
from apportion.allocator.rules.query import AttributeConstraint


class ConstraintState:
    """One constraint during one search."""

    __slots__ = ("_former", "chosen", "distinct", "live", "mask", "of", "values")

    def __init__(self, constraint: AttributeConstraint, view: NodeView) -> None:
        self.distinct = constraint.distinct
        found = view.attribute_index(constraint.attribute)
        self.values: Mapping[AttributeValue, int] = found.values
        self.mask = found.mask
        """Devices that the constraint allows now."""
        self.of: Mapping[int, tuple[AttributeValue, ...]] = found.of
        self.live: set[AttributeValue] = set(self.values)
        self.chosen = 0
        self._former: list[tuple[int, set[AttributeValue]]] = []

    def add(self, index: int) -> None:
        """Record that a device of the mask is chosen."""
        self._former.append((self.mask, self.live))
        own = self.of[index]
        if self.distinct:
            for value in own:
                self.mask &= ~self.values[value]
        else:
            self.live = self.live.intersection(own)
            self.mask &= devices_with(self.values, self.live)
        self.chosen += 1

    def remove(self) -> None:
        """Undo the last `add`."""
        self.mask, self.live = self._former.pop()
        self.chosen -= 1

    def narrow(self, values: set[AttributeValue]) -> None:
        """Restrict a match to these values. Only before any device is chosen."""
        self.live = values
        self.mask &= devices_with(self.values, values)


def devices_with(masks: Mapping[AttributeValue, int], values: set[AttributeValue]) -> int:
    """Return the devices with one of the values."""
    mask = 0
    for value in values:
        mask |= masks[value]
    return mask
