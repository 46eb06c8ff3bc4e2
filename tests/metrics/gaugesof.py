"""The gauges of an observed cluster, as Prometheus would read them."""

from collections.abc import Callable, Mapping

from apportion.gauges.described import Described
from apportion.gauges.fleet import Fleet
from apportion.gauges.pendingclaims import PendingClaims

Values = Mapping[tuple[str, ...], float]


def read(part: Fleet | PendingClaims) -> Callable[[Described], Values]:
    """Let a part take in what changed; returns a function from a gauge to its values by label."""
    for _ in part.steps():
        pass
    found = [each for each in part.samples() if each is not None]

    def values(gauge: Described) -> Values:
        return {tuple(labels): value for each, labels, value in found if each == gauge}

    return values


def by_device(values: Values) -> dict[str, float]:
    """Return the values by kind of device, those of models and drivers added up."""
    found: dict[str, float] = {}
    for labels, value in values.items():
        found[labels[2]] = found.get(labels[2], 0) + value
    return found
