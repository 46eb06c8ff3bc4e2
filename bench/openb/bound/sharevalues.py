"""Value of a shared device's free milli: the best value of demanded shares that still fit.

In: number of pods per share size. Out: a value for every free amount from 0 to a whole device, in whole devices.
Example: next to an 810 share the free 190 milli have no value where no pod requests so little; next to a 470 share the
free 530 have half a device's value where the demand has more pods of 470.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

from apportion.allocator.pricing.cutprices import Pattern, dual_prices
from bench.openb.model import WHOLE


def share_values(demand: Mapping[int, int]) -> tuple[float, ...]:
    """Return the value by free milli, 0 to `WHOLE`, at the dual prices of cutting whole devices into the demanded shares.

    `demand`: share size in milli -> number of pods. Whole devices may be left out: their value is 1.
    """
    sizes = sorted(size for size, count in demand.items() if 0 < size < WHOLE and count > 0)
    unit = reduce(gcd, sizes, WHOLE)

    def best(values: Sequence[int]) -> Pattern:
        return _best_cut(values, [size // unit for size in sizes], WHOLE // unit)

    prices = dual_prices([demand[size] for size in sizes], [WHOLE // size for size in sizes], best)
    table = [0.0] * (WHOLE // unit + 1)
    for free in range(1, len(table)):
        table[free] = max(
            (
                table[free - size // unit] + float(price)
                for size, price in zip(sizes, prices, strict=True)
                if size <= free * unit
            ),
            default=0.0,
        )
    table[-1] = 1.0
    return tuple(table[free // unit] for free in range(WHOLE + 1))


def _best_cut(values: Sequence[int], sizes: Sequence[int], whole: int) -> Pattern:
    """Return the number of shares of each size that cut a whole device into the greatest value (unbounded knapsack)."""
    best_value = [0] * (whole + 1)
    last = [-1] * (whole + 1)
    for free in range(1, whole + 1):
        for i, size in enumerate(sizes):
            if size <= free and best_value[free - size] + values[i] > best_value[free]:
                best_value[free], last[free] = best_value[free - size] + values[i], i
    counts = [0] * len(sizes)
    free = whole
    while free and (i := last[free]) >= 0:
        counts[i] += 1
        free -= sizes[i]
    return tuple(counts)
