"""What a soak works with: nodes, classes of priority, a policy, and random units of claims and pods.

In: numbers and random choices. Out: objects. A unit comes and goes together: a pod with its claims, a claim with the pods that use it, a
group of pods, a controller that makes pods.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from testbed.api import Json
from testbed.installation import SimulatedNode
from testbed.kubelet.podstatus import COMPLETE_AFTER
from testbed.soak.specs import SPECS, WEIGHTS, exactly

T = TypeVar("T")
GPUS, NPUS = 8, 4
"""Whole devices that claims can have when nobody has anything; the cards of the node that is shared are not counted."""
PRIORITIES: Final = {"soak-low": -10, "soak-high": 1000}
URGENT: Final = "soak-urgent"
"""Before all others; pods have it that a disturbance makes."""
TEAM: Final = "example.com/team"
"""Label of the namespaces of teams."""
GATED: Final = "gated"
"""Team, and beginning of the name, of the first namespace with the gate."""
TEAMS: Final = ("a", "b")
"""Teams with a namespace each, whose quotas share a cohort, if they have some."""
IDLE: Final = 520
"""Claims of others that nobody serves. A reflector lists fewer than that anew when its watch breaks, and resumes the watch of more (`Reflector`, `few`)."""
POLICY: Final[Json] = {
    "apiVersion": "apportion.dev/v1alpha1",
    "kind": "AllocationPolicy",
    "metadata": {"name": "soak"},
    "spec": {
        "deviceClasses": {
            "names": [f"{kind}.apportion.dev" for kind in ("gpu", "mig", "npu", "vnpu", "rdma")]
        },
        "partitions": {"idleTimeout": "2s"},
        "unusedTimeout": "5s",
        "sharing": [{"nodeSelector": {"matchLabels": {"example.com/gpus": "shared"}}, "mostClaims": 4}],
    },
}


def nodes() -> list[SimulatedNode]:
    """Return two nodes with four H100 and two NICs each, one whose two H100 are shared, and one with four Ascend 910B4."""
    nics = [
        {"name": f"mlx5-{index}", "pcieRoot": f"pci0000:{0x10 * (1 + index):02x}", "numaNode": index}
        for index in range(2)
    ]
    # A cut takes as long as a fast driver does, so that kills fall into the middle of some.
    slow = {"createDelay": 0.1, "destroyDelay": 0.05}
    whole = {"cards": [{"model": "H100-80GB", "count": 4}], "nics": nics, "faults": slow}
    shared = {"cards": [{"model": "H100-80GB", "count": 2}]}
    npus = {"cards": [{"model": "910B4", "count": 4}], "faults": {"createDelay": 0.1}}
    return [
        SimulatedNode("h100-0", whole),
        SimulatedNode("h100-1", whole),
        SimulatedNode("shared-0", shared, labels={"example.com/gpus": "shared"}),
        SimulatedNode("ascend-0", npus),
    ]


_URGENT: Final = {"gpu": 4, "npu": 2, "3g40gb": 1, "2g20gb": 1, "1g10gb": 3, "quarter": 2}
"""How many urgent pods ask for each."""


def idle_claims() -> Iterator[Json]:
    """Yield the claims that nobody serves."""
    for number in range(IDLE):
        spec = {"devices": {"requests": [exactly("device", "others.example.com")]}}
        yield {"metadata": {"name": f"idle-{number:03d}"}, "spec": spec}


def pod(name: str, *more: str, priority: str = "", seconds: int | None = None, **claim: str) -> Json:
    """Return a pod with a claim, of a template or by name, and `more` claims of templates; `seconds`: after which it succeeds."""
    claims = [claim, *({"resourceClaimTemplateName": each} for each in more)]
    named: Sequence[Json] = [
        {"name": f"device-{index}" if index else "device", **each} for index, each in enumerate(claims)
    ]
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "resources": {
            "claims": [{"name": each["name"]} for each in named],
            "requests": {"cpu": "100m", "memory": "64Mi"},
        },
    }
    return {
        "metadata": {
            "name": name,
            **({"annotations": {COMPLETE_AFTER: str(seconds)}} if seconds is not None else {}),
        },
        "spec": {
            "restartPolicy": "Never",
            "resourceClaims": named,
            "containers": [container],
            **({"priorityClassName": priority} if priority else {}),
        },
    }


@dataclass(frozen=True, slots=True)
class Unit:
    """Objects that come and go together."""

    claims: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    replicas: Json | None = None
    """A ReplicaSet, which makes pods."""
    job: Json | None = None
    """A Job, which makes pods that end by themselves."""


def _priority(choose: random.Random) -> str:
    return choose.choice(("", "", *PRIORITIES))


def _alone(name: str, choose: random.Random) -> Unit:
    """One pod with a claim of its own."""
    made = pod(name, priority=_priority(choose), resourceClaimTemplateName=_drawn(choose, WEIGHTS))
    return Unit(pods=(made,))


def _short(name: str, choose: random.Random) -> Unit:
    """The same, which succeeds by itself."""
    kind, seconds = _drawn(choose, WEIGHTS), choose.randint(1, 6)
    return Unit(
        pods=(pod(name, priority=_priority(choose), seconds=seconds, resourceClaimTemplateName=kind),)
    )


def _several(name: str, choose: random.Random) -> Unit:
    """One pod with two claims of its own, which no node can serve sometimes."""
    return Unit(pods=(pod(name, _drawn(choose, WEIGHTS), resourceClaimTemplateName=_drawn(choose, WEIGHTS)),))


def _together(name: str, choose: random.Random) -> Unit:
    """Two pods that share a claim."""
    claim = {"metadata": {"name": name}, "spec": SPECS[choose.choice(("gpu", "1g10gb", "quarter"))]}
    return Unit((claim,), tuple(pod(f"{name}-{user}", resourceClaimName=name) for user in range(2)))


def _kept(name: str, choose: random.Random) -> Unit:
    """Pods that end by themselves, one after the other, and the claim that they use, which keeps its devices for a while."""
    claim: Json = {
        "metadata": {"name": name, "annotations": {"apportion.dev/keep-for": f"{choose.randint(1, 20)}s"}},
        "spec": SPECS[choose.choice(("gpu", "1g10gb", "quarter"))],
    }
    pods = (pod(f"{name}-{user}", seconds=choose.randint(1, 8), resourceClaimName=name) for user in range(3))
    return Unit((claim,), tuple(pods))


def _group(name: str, choose: random.Random) -> Unit:
    """A group of pods, of which all have devices or none."""
    count = choose.randint(2, 4)
    pods = []
    for index in range(count):
        raw = pod(f"{name}-{index}", resourceClaimTemplateName=choose.choice(("gpu", "1g10gb", "npu")))
        raw["metadata"]["labels"] = {"apportion.dev/pod-group": name}
        raw["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": str(count)}
        pods.append(raw)
    return Unit(pods=tuple(pods))


def _immediate(name: str, choose: random.Random) -> Unit:
    """A claim that has devices at once, with or without a pod."""
    claim: Json = {
        "metadata": {"name": name, "annotations": {"apportion.dev/allocation": "Immediate"}},
        "spec": SPECS[choose.choice(("gpu", "1g10gb", "npu"))],
    }
    return Unit(
        (claim,), tuple(pod(f"{name}-{user}", resourceClaimName=name) for user in range(choose.randint(0, 1)))
    )


def _replicas(name: str, choose: random.Random) -> Unit:
    """Pods of a ReplicaSet, which makes others for those that are evicted."""
    template = pod(name, priority=_priority(choose), resourceClaimTemplateName=_drawn(choose, WEIGHTS))
    template["metadata"] = {"labels": {"set": name}}
    template["spec"]["restartPolicy"] = "Always"
    spec = {
        "replicas": choose.randint(1, 4),
        "selector": {"matchLabels": {"set": name}},
        "template": template,
    }
    return Unit(replicas={"metadata": {"name": name}, "spec": spec})


def _job(name: str, choose: random.Random) -> Unit:
    """Pods of a Job."""
    template = pod(name, seconds=choose.randint(1, 4), resourceClaimTemplateName=_drawn(choose, WEIGHTS))
    del template["metadata"]["name"]
    spec = {
        "parallelism": choose.randint(1, 3),
        "completions": choose.randint(1, 6),
        "template": template,
    }
    return Unit(job={"metadata": {"name": name}, "spec": spec})


_KINDS: Final[dict[Callable[[str, random.Random], Unit], int]] = {
    _alone: 14, _short: 3, _several: 2, _together: 2, _kept: 2, _group: 2, _immediate: 2, _replicas: 2, _job: 2,
}  # fmt: skip


def unit(name: str, choose: random.Random) -> Unit:
    """Return a random unit whose objects begin with a name."""
    return _drawn(choose, _KINDS)(name, choose)


def urgent_pods(name: str) -> Sequence[Json]:
    """Return pods of the highest priority that take all that a change of leaders may find free; their names begin with a name."""
    return [
        pod(f"{name}-{kind}-{number}", priority=URGENT, resourceClaimTemplateName=kind)
        for kind, count in _URGENT.items()
        for number in range(count)
    ]


def last_pods() -> Sequence[Json]:
    """Return as many pods with whole devices as an empty cluster has."""
    return [
        pod(f"last-{kind}-{number}", resourceClaimTemplateName=kind)
        for kind, count in (("gpu", GPUS), ("npu", NPUS))
        for number in range(count)
    ]


def _drawn(choose: random.Random, weights: dict[T, int]) -> T:
    return choose.choices(list(weights), list(weights.values()))[0]
