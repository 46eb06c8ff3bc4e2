"""Variants of the openb pod list, drawn by number; the option `--sisters` replays them.

In: the default trace and a number. Out: a trace with the same nodes, and pods drawn from the default list with another
composition, as in the variants that the data set's owners published: more shares, more multi-device pods, no pods without
devices or more of them, pods with accepted models.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from bench.openb.model import WHOLE, PodRequest
from bench.openb.trace import Pod, Trace

Draw = Callable[[random.Random, Trace], list[Pod]]


def variant(trace: Trace, number: int) -> Trace:
    """Return the variant with this number; variants of one composition differ by the draw."""
    names = tuple(COMPOSITIONS)
    name = names[number % len(names)]
    rng = random.Random(f"{trace.name}/{name}/{number}")
    pods = COMPOSITIONS[name](rng, trace)
    rng.shuffle(pods)
    return Trace(
        f"{name}-{number}", trace.nodes, tuple(replace(pod, name=f"p{i:05d}") for i, pod in enumerate(pods))
    )


def _share(fraction: float) -> Draw:
    """Draw shares as this fraction of the pods with devices."""
    return _of(lambda request: request.devices == 1 and request.milli < WHOLE, fraction)


def _multi(fraction: float) -> Draw:
    """Draw multi-device pods until they request this fraction of the milli requested by all pods with devices."""

    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        several = [pod for pod in trace.pods if pod.request.devices > 1]
        rest = [pod for pod in trace.pods if pod.request.devices <= 1]
        target = sum(pod.request.total_milli for pod in trace.pods)
        drawn: list[Pod] = []
        requested = 0
        while requested < fraction * target:
            drawn.append(rng.choice(several))
            requested += drawn[-1].request.total_milli
        while requested < target:
            drawn.append(rng.choice(rest))
            requested += drawn[-1].request.total_milli
        return drawn

    return make


def _spec(fraction: float) -> Draw:
    """Give this fraction of the pods with devices accepted models, drawn by the number of devices of each model."""

    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        models = [node.free.model for node in trace.nodes for _ in node.free.free_milli]
        widest = {
            model: max(len(node.free.free_milli) for node in trace.nodes if node.free.model == model)
            for model in sorted(set(models))
        }
        found = []
        for pod in trace.pods:
            request = pod.request
            if request.devices and rng.random() < fraction:
                chosen = {rng.choice(models) for _ in range(rng.randint(1, 3))}
                named = frozenset(model for model in chosen if widest[model] >= request.devices)
                request = request._replace(models=named)
            found.append(replace(pod, request=request))
        return found

    return make


def _devices_only(rng: random.Random, trace: Trace) -> list[Pod]:
    """Draw as many pods as the list has, all with devices."""
    with_devices = [pod for pod in trace.pods if pod.request.devices]
    return [rng.choice(with_devices) for _ in trace.pods]


def _without_devices(times: float) -> Draw:
    """Draw more pods without devices: so many times those of the list."""

    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        none = [pod for pod in trace.pods if not pod.request.devices]
        return [*trace.pods, *[rng.choice(none) for _ in range(round((times - 1) * len(none)))]]

    return make


def _of(which: Callable[[PodRequest], bool], fraction: float) -> Draw:
    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        mine = [pod for pod in trace.pods if pod.request.devices and which(pod.request)]
        rest = [pod for pod in trace.pods if pod.request.devices and not which(pod.request)]
        none = [pod for pod in trace.pods if not pod.request.devices]
        with_devices = len(mine) + len(rest)
        return none + [rng.choice(mine if rng.random() < fraction else rest) for _ in range(with_devices)]

    return make


COMPOSITIONS: Mapping[str, Draw] = {
    "cpu0": _devices_only,
    "gpushare40": _share(0.4),
    "gpushare60": _share(0.6),
    "gpushare80": _share(0.8),
    "gpushare100": _share(1.0),
    "multi20": _multi(0.2),
    "multi30": _multi(0.3),
    "multi40": _multi(0.4),
    "multi50": _multi(0.5),
    "spec10": _spec(0.1),
    "spec20": _spec(0.2),
    "spec33": _spec(0.33),
    "cpu250": _without_devices(2.5),
}
