"""How close the devices are that were chosen so far.

In: devices as they are chosen and given back. Out: the worst level among the pairs, the sum of the levels, and how the
set fills the values of a rung. An administrator's look at a device is not part of the set.
"""

from typing import TypeAlias

from apportion.allocator.closeness.distances import NodeDistances
from apportion.allocator.closeness.ladder import Ladder

Cost: TypeAlias = tuple[int, ...]
"""(worst level, unevenness, sum of levels, one rank per rung with `fill`): the least is best."""


class ClosenessCost:
    """One set of devices."""

    __slots__ = ("_chosen", "_distances", "_kept", "_ladder", "total", "worst")

    def __init__(self, distances: NodeDistances, ladder: Ladder) -> None:
        self._distances = distances
        self._ladder = ladder
        self._chosen: list[tuple[int, int]] = []
        """(device, the devices that could have been taken in its place)"""
        self._kept: list[tuple[int, int]] = []
        self.worst = 0
        self.total = 0

    def add(self, index: int, instead: int) -> None:
        """Let a device join; `instead`: all that the request could have taken, before anything was."""
        self._kept.append((self.worst, self.total))
        self.worst, self.total = self.joined(index)
        self._chosen.append((index, instead))

    def remove(self) -> None:
        """Take back the last one that joined."""
        self.worst, self.total = self._kept.pop()
        self._chosen.pop()

    def joined(self, index: int) -> tuple[int, int]:
        """Return worst level and sum of levels as they would be with this device."""
        worst, total = self.worst, self.total
        for other, _ in self._chosen:
            level = self._distances.level(index, other)
            worst = max(worst, level)
            total += level
        return worst, total

    @property
    def devices(self) -> list[int]:
        """The devices in the set, in the order in which they joined."""
        return [index for index, _ in self._chosen]

    def close(self) -> Cost:
        """Rate the set."""
        fills = (self._filled(number) for number, rung in enumerate(self._ladder.rungs) if rung.fill)
        return (self.worst, self.uneven(), self.total, *fills)

    def uneven(self) -> int:
        """Return how unevenly the set is dealt out, on the rungs that want it even."""
        found = 0
        for number, rung in enumerate(self._ladder.rungs):
            if rung.even:
                counts = [
                    count
                    for count in (self._count(group) for group in self._distances.groups[number])
                    if count
                ]
                found += max(counts) - min(counts) if counts else 0
        return found

    def _count(self, group: int) -> int:
        return sum(group >> index & 1 for index, _ in self._chosen)

    def _filled(self, number: int) -> int:
        """Rate from which values of a rung the set was taken."""
        rung = self._ladder.rungs[number]
        found = 0
        for instead in dict.fromkeys(mask for _, mask in self._chosen):
            mine = [index for index, mask in self._chosen if mask == instead]
            for group in self._distances.groups[number]:
                taken = sum(group >> index & 1 for index in mine)
                if taken:
                    found += rung.rank(taken, (group & instead).bit_count())
        return found
