"""How much of a node's device room is useless because too few cores are left beside it.

In: the demand. Out: the useless part, 0 to 1, by cores per device of worth. A pod that wants k cores per device of worth
can use min(1, x / k) of room that has x; the rest is lost to it. Pods come in turns and the better one is placed, so
the loss is the mean of the smaller of two pods' losses, both drawn from the demand.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from apportion.allocator.worth.free import Ask

Useless: TypeAlias = Callable[[float], float]
"""Cores per device of worth -> part of the room that is useless."""

DRAWS = 2
"""Pods of which the better one is placed. One is too gloomy: it gives up rooms for which a modest pod will come."""

STEPS_PER_CORE = 20
"""The curve is looked up at a twentieth of a core."""

MOST_CORES = 256
"""Beyond this many cores per device of worth nothing changes."""


def useless_part(demand: Mapping[Ask, int], worth: Callable[[Ask], float]) -> Useless:
    """Learn the curve. `worth`: devices of worth that a request takes; requests that take none say nothing."""
    wanted: list[tuple[float, float]] = []
    for ask, count in demand.items():
        value = worth(ask)
        if value > 0:
            wanted.append((ask.cpu / 1000 / value, count * value))
    wanted.sort()
    total = sum(weight for _, weight in wanted)
    parts = [(cores, weight / total) for cores, weight in wanted if cores > 0]
    above = sum(part for _, part in parts)
    chances: list[tuple[float, float]] = []
    for cores, part in parts:
        # The smaller loss of several draws is this pod's when none of the others wants fewer cores.
        rest = max(above - part, 0.0)
        chances.append((cores, above**DRAWS - rest**DRAWS))
        above = rest
    table = [
        sum(chance * max(0.0, 1 - step / STEPS_PER_CORE / cores) for cores, chance in chances)
        for step in range(MOST_CORES * STEPS_PER_CORE + 1)
    ]
    last = len(table) - 1

    def useless(cores: float) -> float:
        return table[min(int(cores * STEPS_PER_CORE), last)]

    return useless
