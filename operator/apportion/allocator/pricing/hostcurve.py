"""HostCurve: the part of a node's free device value that is stranded because too little cpu (or memory) is left for it.

In: the amounts that pods request per unit of device value, and how often. Out: the stranded part, 0 to 1, by the amount left
per unit of device value. A pod that requests k can use min(1, x / k) of devices that have x; the rest is stranded. The
scheduler places the better fitting of several pods, so the loss is the mean of the smaller of two pods' losses, both drawn
from the demand.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

DRAWS = 2
"""Pods of which the better one is placed. With one, devices that a smaller pod could still use would count as stranded."""


class HostCurve:
    """The curve of one resource; falls to 0 at the largest request."""

    __slots__ = ("_amounts", "_chances", "_slopes")

    def __init__(self, requests: Iterable[tuple[float, float]]) -> None:
        """`requests`: (amount per unit of device value, how often); amounts from 0 up."""
        rows = sorted(requests)
        total = sum(weight for _, weight in rows)
        parts = [(amount, weight / total) for amount, weight in rows if amount > 0 and weight > 0]
        above = sum(part for _, part in parts)
        chances: list[tuple[float, float]] = []
        for amount, part in parts:
            # The smallest loss among the drawn pods is this pod's when no other requests less.
            rest = max(above - part, 0.0)
            chances.append((amount, above**DRAWS - rest**DRAWS))
            above = rest
        self._amounts = [amount for amount, _ in chances]
        # From the largest request down: a request that fits loses nothing.
        descending = chances[::-1]
        self._chances = list(accumulate((chance for _, chance in descending), initial=0.0))[::-1]
        self._slopes = list(accumulate((chance / amount for amount, chance in descending), initial=0.0))[::-1]

    @property
    def most(self) -> float:
        """Return the amount per unit of device value from which on nothing is stranded; 0 without requests."""
        return self._amounts[-1] if self._amounts else 0.0

    def part(self, left: float) -> float:
        """Return the stranded part with this amount left per unit of device value."""
        at = bisect_right(self._amounts, left)
        return max(self._chances[at] - left * self._slopes[at], 0.0)
