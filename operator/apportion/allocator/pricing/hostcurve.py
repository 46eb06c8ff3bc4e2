"""How much of a node's device room is useless because too little of something else is left beside it.

In: what claims want of it per device of worth, and how often. Out: the useless part, 0 to 1, by what is left per device
of worth. A pod that wants k per device can use min(1, x / k) of room that has x; the rest is lost to it. Pods come in
turns and the better one is placed, so the loss is the mean of the smaller of two pods' losses, both drawn from the demand.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

DRAWS = 2
"""Pods of which the better one is placed. One is too gloomy: it gives up rooms for which a modest pod will come."""


class HostCurve:
    """The curve of one resource; falls to 0 at what the greediest pod wants."""

    __slots__ = ("_chances", "_slopes", "_wanted")

    def __init__(self, wanted: Iterable[tuple[float, float]]) -> None:
        """`wanted`: (amount per device of worth, how often), any amounts from 0 up."""
        rows = sorted(wanted)
        total = sum(weight for _, weight in rows)
        parts = [(amount, weight / total) for amount, weight in rows if amount > 0 and weight > 0]
        above = sum(part for _, part in parts)
        chances: list[tuple[float, float]] = []
        for amount, part in parts:
            # The smaller loss of several draws is this pod's when none of the others wants less.
            rest = max(above - part, 0.0)
            chances.append((amount, above**DRAWS - rest**DRAWS))
            above = rest
        self._wanted = [amount for amount, _ in chances]
        # From the greediest down: who wants no more than there is loses nothing.
        greedy = chances[::-1]
        self._chances = list(accumulate((chance for _, chance in greedy), initial=0.0))[::-1]
        self._slopes = list(accumulate((chance / amount for amount, chance in greedy), initial=0.0))[::-1]

    @property
    def most(self) -> float:
        """Return the amount per device of worth from which on nothing is useless; 0 where nobody wants any."""
        return self._wanted[-1] if self._wanted else 0.0

    def part(self, left: float) -> float:
        """Return the part of the room that is useless with so much left per device of worth."""
        at = bisect_right(self._wanted, left)
        return max(self._chances[at] - left * self._slopes[at], 0.0)
