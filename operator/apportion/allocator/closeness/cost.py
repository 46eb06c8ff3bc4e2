"""ClosenessCost: how far apart the devices chosen so far are.

In: devices, as they are chosen and given back. Out: the worst level among the pairs, the sum of the levels, and how the set
is spread over the values of a rung. Devices with admin access are not in the set.
"""

from typing import TypeAlias

from apportion.allocator.closeness.distances import NodeDistances
from apportion.allocator.closeness.ladder import Ladder

Cost: TypeAlias = tuple[int, ...]
"""(worst level, unevenness, sum of levels, one rank per rung with `fill`); the smallest is best."""


class ClosenessCost:
    """The cost of one set of devices."""

    __slots__ = ("_chosen", "_distances", "_former", "_ladder", "_shares", "total", "worst")

    def __init__(self, distances: NodeDistances, ladder: Ladder) -> None:
        self._distances = distances
        self._ladder = ladder
        self._chosen: list[tuple[int, int]] = []
        """(device, the devices that its request could take)"""
        self._shares: dict[int, int] = {}
        """How often each device is in the set: more than once where several of its shares are."""
        self._former: list[tuple[int, int]] = []
        self.worst = 0
        self.total = 0

    def add(self, index: int, eligible: int) -> None:
        """Add a device; `eligible`: all devices that its request could take on the node before the search."""
        self._former.append((self.worst, self.total))
        self.worst, self.total = self.with_device(index)
        self._chosen.append((index, eligible))
        self._shares[index] = self._shares.get(index, 0) + 1

    def remove(self) -> None:
        """Remove the device added last."""
        self.worst, self.total = self._former.pop()
        index, _ = self._chosen.pop()
        self._shares[index] -= 1
        if not self._shares[index]:
            del self._shares[index]

    def with_device(self, index: int) -> tuple[int, int]:
        """Return (worst level, sum of levels) with this device added."""
        worst, total = self.worst, self.total
        for other, shares in self._shares.items():
            level = self._distances.level(index, other)
            worst = max(worst, level)
            total += level * shares
        return worst, total

    @property
    def devices(self) -> list[int]:
        """The devices in the set, in the order of `add`."""
        return [index for index, _ in self._chosen]

    def cost(self) -> Cost:
        """Return the cost of the set."""
        fills = (self._filled(number) for number, rung in enumerate(self._ladder.rungs) if rung.fill)
        return (self.worst, self.uneven(), self.total, *fills)

    def uneven(self) -> int:
        """Return how unevenly the set is divided over the values of rungs with `even`."""
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
        """Rate the values of a rung that the devices are taken from."""
        rung = self._ladder.rungs[number]
        found = 0
        for eligible in dict.fromkeys(mask for _, mask in self._chosen):
            same = [index for index, mask in self._chosen if mask == eligible]
            for group in self._distances.groups[number]:
                taken = sum(group >> index & 1 for index in same)
                if taken:
                    found += rung.rank(taken, (group & eligible).bit_count())
        return found
