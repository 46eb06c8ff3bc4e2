"""Fraction of a node's free device value that is stranded because the node has too few free cores.

In: the demand. Out: the stranded fraction, 0 to 1, by free cores per device of value; the same curve as the product's
(`apportion.allocator.pricing.hostcurve`).
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from apportion.allocator.pricing.stranding import HostCurve
from bench.openb.model import PodRequest

StrandedFraction: TypeAlias = Callable[[float], float]
"""Free cores per device of value -> stranded fraction of that value."""

STEPS_PER_CORE = 20
"""The curve is tabulated in steps of a twentieth of a core."""

MOST_CORES = 256
"""Largest tabulated number of cores per device of value; the curve is constant beyond it."""


def stranded_fraction(
    demand: Mapping[PodRequest, int], value_of: Callable[[PodRequest], float]
) -> StrandedFraction:
    """Return the curve of this demand. `value_of`: value a request takes, in whole devices; requests with value 0 are ignored."""
    curve = HostCurve(
        (request.cpu / 1000 / value, count * value)
        for request, count in demand.items()
        if (value := value_of(request)) > 0
    )
    table = [curve.part(step / STEPS_PER_CORE) for step in range(MOST_CORES * STEPS_PER_CORE + 1)]
    last = len(table) - 1

    def stranded(cores: float) -> float:
        return table[min(int(cores * STEPS_PER_CORE), last)]

    return stranded
