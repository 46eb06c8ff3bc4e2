"""How the sets of devices that claims choose from lie to each other.

In: what the sets reach on nodes of each kind. Out: which set lies inside which, which share devices, and the markets:
sets that share devices with each other, be it through others.
"""

from collections.abc import Sequence


class Markets:
    """Only ever learns more: sets come apart, or meet."""

    def __init__(self, size: int) -> None:
        self._inside = [[True] * size for _ in range(size)]
        self._meet = [[False] * size for _ in range(size)]
        self.exists = False
        """Whether some set shares devices with another without lying inside it."""
        self.markets: tuple[int, ...] = tuple(range(size))
        """Per set the first of its market."""

    def learn(self, reaches: Sequence[int]) -> bool:
        """Learn from a node: per set a bit mask of the devices that belong to it. Return whether that was news."""
        news = False
        for i, mine in enumerate(reaches):
            for j, other in enumerate(reaches):
                if mine & ~other and self._inside[i][j]:
                    self._inside[i][j], news = False, True
                if mine & other and not self._meet[i][j]:
                    self._meet[i][j], news = True, True
        if news:
            size = range(len(self.markets))
            self.exists = any(self._meet[i][j] and not self._inside[i][j] for i in size for j in size)
            self.markets = self._join()
        return news

    def inside(self, one: int, two: int) -> bool:
        """Say whether one set lies inside the other on every node."""
        return self._inside[one][two]

    def same(self, one: int, two: int) -> bool:
        """Say whether two sets are one: selectors may differ in words only."""
        return self._inside[one][two] and self._inside[two][one]

    def _join(self) -> tuple[int, ...]:
        firsts = list(range(len(self.markets)))
        for i, row in enumerate(self._meet):
            for j, meets in enumerate(row):
                if meets and firsts[i] != firsts[j]:
                    low, high = sorted((firsts[i], firsts[j]))
                    firsts = [low if first == high else first for first in firsts]
        return tuple(firsts)
