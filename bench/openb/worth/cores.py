"""How much of a node's device room is useless because too few cores are left beside it.

In: the demand. Out: the useless part, 0 to 1, by cores per device of worth (see `shortfall`).
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from apportion.allocator.pricing.hostcurve import HostCurve
from bench.openb.worth.free import Ask

Useless: TypeAlias = Callable[[float], float]
"""Cores per device of worth -> part of the room that is useless."""

STEPS_PER_CORE = 20
"""The curve is looked up at a twentieth of a core."""

MOST_CORES = 256
"""Beyond this many cores per device of worth nothing changes."""


def useless_part(demand: Mapping[Ask, int], worth: Callable[[Ask], float]) -> Useless:
    """Learn the curve. `worth`: devices of worth that a request takes; requests that take none say nothing."""
    curve = HostCurve(
        (ask.cpu / 1000 / value, count * value) for ask, count in demand.items() if (value := worth(ask)) > 0
    )
    table = [curve.part(step / STEPS_PER_CORE) for step in range(MOST_CORES * STEPS_PER_CORE + 1)]
    last = len(table) - 1

    def useless(cores: float) -> float:
        return table[min(int(cores * STEPS_PER_CORE), last)]

    return useless
