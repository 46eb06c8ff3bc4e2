"""Sister lists of the openb pods: other lists of the same family, made by seed.

In: the default trace and a number. Out: a trace with the same nodes and pods that were drawn from the default list by
other rules, as the lists of the data set's owners were: more shares, more whole or several devices, pods without
devices left out, pods that name the models that will do.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from bench.openb.trace import Pod, Trace
from bench.openb.worth.free import WHOLE, Ask

Rule = Callable[[random.Random, Trace], list[Pod]]


def sister(trace: Trace, number: int) -> Trace:
    """Return the list with this number; lists of one rule differ by what was drawn."""
    names = tuple(RULES)
    name = names[number % len(names)]
    rng = random.Random(f"{trace.name}/{name}/{number}")
    pods = RULES[name](rng, trace)
    rng.shuffle(pods)
    return Trace(
        f"{name}-{number}", trace.nodes, tuple(replace(pod, name=f"p{i:05d}") for i, pod in enumerate(pods))
    )


def _share(part: float) -> Rule:
    """Let pods that share a device make up this part of those that want one."""
    return _of(lambda ask: ask.devices == 1 and ask.milli < WHOLE, part)


def _multi(part: float) -> Rule:
    """Let pods that want several devices make up this part of what is asked for by pods with devices."""

    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        several = [pod for pod in trace.pods if pod.ask.devices > 1]
        rest = [pod for pod in trace.pods if pod.ask.devices <= 1]
        target = sum(pod.ask.size for pod in trace.pods)
        drawn: list[Pod] = []
        asked = 0
        while asked < part * target:
            drawn.append(rng.choice(several))
            asked += drawn[-1].ask.size
        while asked < target:
            drawn.append(rng.choice(rest))
            asked += drawn[-1].ask.size
        return drawn

    return make


def _spec(part: float) -> Rule:
    """Let this part of the pods with devices name models that will do, by how many devices of each there are."""

    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        models = [node.free.model for node in trace.nodes for _ in node.free.rooms]
        widest = {
            model: max(len(node.free.rooms) for node in trace.nodes if node.free.model == model)
            for model in sorted(set(models))
        }
        found = []
        for pod in trace.pods:
            ask = pod.ask
            if ask.devices and rng.random() < part:
                chosen = {rng.choice(models) for _ in range(rng.randint(1, 3))}
                named = frozenset(model for model in chosen if widest[model] >= ask.devices)
                ask = ask._replace(models=named)
            found.append(replace(pod, ask=ask))
        return found

    return make


def _devices_only(rng: random.Random, trace: Trace) -> list[Pod]:
    """Leave out pods without devices; draw as many with as there were pods."""
    wanting = [pod for pod in trace.pods if pod.ask.devices]
    return [rng.choice(wanting) for _ in trace.pods]


def _of(which: Callable[[Ask], bool], part: float) -> Rule:
    def make(rng: random.Random, trace: Trace) -> list[Pod]:
        mine = [pod for pod in trace.pods if pod.ask.devices and which(pod.ask)]
        rest = [pod for pod in trace.pods if pod.ask.devices and not which(pod.ask)]
        none = [pod for pod in trace.pods if not pod.ask.devices]
        wanting = len(mine) + len(rest)
        return none + [rng.choice(mine if rng.random() < part else rest) for _ in range(wanting)]

    return make


RULES: Mapping[str, Rule] = {
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
}
