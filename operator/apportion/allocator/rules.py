"""Constraints while devices are being chosen (matchAttribute, distinctAttribute).

In: the devices chosen so far. Out: the devices that may still join. A match is solved by its attribute's values: the
values that all chosen devices share are live, and whoever holds a live value may join.
"""

from collections.abc import Mapping

from apportion.allocator.attribute import Atom
from apportion.allocator.shape import Rule
from apportion.allocator.view import NodeView


class RuleState:
    """One constraint during one search."""

    __slots__ = ("_kept", "chosen", "distinct", "live", "mask", "of", "values")

    def __init__(self, rule: Rule, view: NodeView) -> None:
        self.distinct = rule.distinct
        found = view.rows(rule.attribute)
        self.values: Mapping[Atom, int] = found.values
        self.mask = found.mask
        """Devices that may join now."""
        self.of: Mapping[int, tuple[Atom, ...]] = found.of
        self.live: set[Atom] = set(self.values)
        self.chosen = 0
        self._kept: list[tuple[int, set[Atom]]] = []

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

    def narrow(self, atoms: set[Atom]) -> None:
        """Before anything is chosen: only these values can lead to a solution."""
        self.live = atoms
        self.mask &= sum_of(self.values, atoms)


def sum_of(values: Mapping[Atom, int], atoms: set[Atom]) -> int:
    """Return the devices that hold one of the atoms."""
    mask = 0
    for atom in atoms:
        mask |= values[atom]
    return mask
