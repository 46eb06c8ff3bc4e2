"""Markets: which device sets lie inside another, share devices, or are traded together.

In: per node class the mask of its devices in each set. Out: relations between sets, and the first set of each one's market.
"""

from collections.abc import Sequence


class Markets:
    """Relations between sets, over all node classes learnt so far. Learning only separates sets or finds common devices."""

    def __init__(self, size: int) -> None:
        self._inside = [[True] * size for _ in range(size)]
        self._meet = [[False] * size for _ in range(size)]
        self.exists = False
        """Whether some set shares devices with another without lying inside it."""
        self.markets: tuple[int, ...] = tuple(range(size))
        """Per set the number of the first set of its market."""

    def learn(self, masks: Sequence[int]) -> bool:
        """Learn from a node: per set the mask of its devices. Return whether a relation changed."""
        changed = False
        for i, mine in enumerate(masks):
            for j, other in enumerate(masks):
                if mine & ~other and self._inside[i][j]:
                    self._inside[i][j], changed = False, True
                if mine & other and not self._meet[i][j]:
                    self._meet[i][j], changed = True, True
        if changed:
            size = range(len(self.markets))
            self.exists = any(self._meet[i][j] and not self._inside[i][j] for i in size for j in size)
            self.markets = self._join()
        return changed

    def inside(self, inner: int, outer: int) -> bool:
        """Say whether one set lies inside the other on every node."""
        return self._inside[inner][outer]

    def same(self, one: int, other: int) -> bool:
        """Say whether two sets have the same devices on every node: their selectors may differ in text only."""
        return self._inside[one][other] and self._inside[other][one]

    def _join(self) -> tuple[int, ...]:
        firsts = list(range(len(self.markets)))
        for i, row in enumerate(self._meet):
            for j, meets in enumerate(row):
                if meets and firsts[i] != firsts[j]:
                    low, high = sorted((firsts[i], firsts[j]))
                    firsts = [low if first == high else first for first in firsts]
        return tuple(firsts)
