"""What room on a shared device is worth: the best value of demanded shares that still fit into it.

In: how often each share size is asked for. Out: a price for every room from 0 to a whole device, in whole devices.
190 milli left beside an 810 share are worth nothing where nobody asks for so little; 530 left beside a 470 share are
worth half a device where another 470 will come.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

from apportion.allocator.pricing.dualprices import Pattern, dual_prices
from bench.openb.worth.free import WHOLE


def room_values(demand: Mapping[int, int]) -> tuple[float, ...]:
    """Return the worth of each room, 0 to `WHOLE` milli, at the dual prices of cutting wholes into the demand.

    `demand`: share size in milli -> how often it is asked for. Whole devices need not be in it: a whole is worth 1.
    """
    sizes = sorted(size for size, count in demand.items() if 0 < size < WHOLE and count > 0)
    unit = reduce(gcd, sizes, WHOLE)

    def best(values: Sequence[int]) -> Pattern:
        return _best_cut(values, [size // unit for size in sizes], WHOLE // unit)

    prices = dual_prices([demand[size] for size in sizes], [WHOLE // size for size in sizes], best)
    table = [0.0] * (WHOLE // unit + 1)
    for room in range(1, len(table)):
        table[room] = max(
            (
                table[room - size // unit] + float(price)
                for size, price in zip(sizes, prices, strict=True)
                if size <= room * unit
            ),
            default=0.0,
        )
    table[-1] = 1.0
    return tuple(table[room // unit] for room in range(WHOLE + 1))


def _best_cut(values: Sequence[int], sizes: Sequence[int], whole: int) -> Pattern:
    """Return how many of each size to cut from a whole for the greatest value (unbounded knapsack)."""
    worth = [0] * (whole + 1)
    last = [-1] * (whole + 1)
    for room in range(1, whole + 1):
        for i, size in enumerate(sizes):
            if size <= room and worth[room - size] + values[i] > worth[room]:
                worth[room], last[room] = worth[room - size] + values[i], i
    counts = [0] * len(sizes)
    room = whole
    while room and (i := last[room]) >= 0:
        counts[i] += 1
        room -= sizes[i]
    return tuple(counts)
