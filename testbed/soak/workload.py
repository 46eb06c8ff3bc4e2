"""What a soak asks for: nodes, classes of priority, a policy, and random units of claims and pods.

In: numbers and random choices. Out: objects. A unit comes and goes together: a pod with its claim, a claim with the pods that share it, a
group of pods.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from testbed.api import Json
from testbed.installation import SimulatedNode

T = TypeVar("T")
GPU, NPU = "gpu.apportion.dev", "npu.apportion.dev"
GPUS, NPUS = 8, 4
"""Whole devices that claims can have when nobody has anything; the cards of the node that is shared are not counted."""
PROFILES: Final = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb")
PRIORITIES: Final = {"soak-low": -10, "soak-high": 1000}
URGENT: Final = "soak-urgent"
"""Before all others; pods have it that a disturbance makes."""
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


def exactly(name: str, device_class: str, expression: str = "", **more: Any) -> Json:
    """Return one request."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": selectors, **more}}


def mig(profile: str) -> Json:
    """Return the spec of a claim for one MIG partition."""
    expression = f'device.attributes["{GPU}"].profile == "{profile}"'
    return {"devices": {"requests": [exactly("gpu", "mig.apportion.dev", expression)]}}


def vnpu(template: str) -> Json:
    """Return the spec of a claim for one vNPU."""
    expression = f'device.attributes["{NPU}"].template == "{template}"'
    return {"devices": {"requests": [exactly("npu", "vnpu.apportion.dev", expression)]}}


def whole(device_class: str) -> Json:
    """Return the spec of a claim for one whole device that nobody shares."""
    return {"devices": {"requests": [exactly("whole", device_class, "!device.allowMultipleAllocations")]}}


def share(memory: str) -> Json:
    """Return the spec of a claim for a part of a shared GPU."""
    capacity = {"requests": {"memory": memory}}
    return {
        "devices": {"requests": [exactly("part", GPU, "device.allowMultipleAllocations", capacity=capacity)]}
    }


def with_nic() -> Json:
    """Return the spec of a claim for a GPU and a NIC behind one PCIe root."""
    requests = [*whole(GPU)["devices"]["requests"], exactly("nic", "rdma.apportion.dev")]
    near = {"requests": ["whole", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
    return {"devices": {"requests": requests, "constraints": [near]}}


SPECS: Final = {profile.replace(".", ""): mig(profile) for profile in PROFILES} | {
    "gpu": whole(GPU),
    "gpu-nic": with_nic(),
    "npu": whole(NPU),
    "quarter": vnpu("vir05_1c_8g"),
    "share": share("10Gi"),
}
"""Claim templates by name."""
_WEIGHTS: Final = {
    "gpu": 5, "1g10gb": 4, "1g20gb": 1, "2g20gb": 2, "3g40gb": 1, "gpu-nic": 1, "npu": 3, "quarter": 2, "share": 3
}  # fmt: skip
"""How often a pod asks for each."""
_URGENT: Final = {"gpu": 4, "npu": 2, "3g40gb": 1, "2g20gb": 1, "1g10gb": 3, "quarter": 2}
"""How many urgent pods ask for each."""


def templates() -> Iterator[Json]:
    """Yield the ResourceClaimTemplates."""
    for name, spec in SPECS.items():
        yield {"metadata": {"name": name}, "spec": {"spec": spec}}


def idle_claims() -> Iterator[Json]:
    """Yield the claims that nobody serves."""
    for number in range(IDLE):
        spec = {"devices": {"requests": [exactly("device", "others.example.com")]}}
        yield {"metadata": {"name": f"idle-{number:03d}"}, "spec": spec}


def pod(name: str, *, priority: str = "", **claim: str) -> Json:
    """Return a pod with one claim, of a template or by name."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "resources": {"claims": [{"name": "device"}], "requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "resourceClaims": [{"name": "device", **claim}],
            "containers": [container],
            **({"priorityClassName": priority} if priority else {}),
        },
    }


@dataclass(frozen=True, slots=True)
class Unit:
    """Claims and pods that come and go together."""

    claims: tuple[Json, ...]
    pods: tuple[Json, ...]


def _alone(name: str, choose: random.Random) -> Unit:
    """One pod with a claim of its own."""
    priority = choose.choice(("", "", *PRIORITIES))
    return Unit((), (pod(name, priority=priority, resourceClaimTemplateName=_drawn(choose, _WEIGHTS)),))


def _together(name: str, choose: random.Random) -> Unit:
    """Two pods that share a claim."""
    claim = {"metadata": {"name": name}, "spec": SPECS[choose.choice(("gpu", "1g10gb", "quarter"))]}
    return Unit((claim,), tuple(pod(f"{name}-{user}", resourceClaimName=name) for user in range(2)))


def _group(name: str, choose: random.Random) -> Unit:
    """A group of pods, of which all have devices or none."""
    count = choose.randint(2, 4)
    pods = []
    for index in range(count):
        raw = pod(f"{name}-{index}", resourceClaimTemplateName=choose.choice(("gpu", "1g10gb", "npu")))
        raw["metadata"]["labels"] = {"apportion.dev/pod-group": name}
        raw["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": str(count)}
        pods.append(raw)
    return Unit((), tuple(pods))


def _immediate(name: str, choose: random.Random) -> Unit:
    """A claim that has devices at once, with or without a pod."""
    claim: Json = {
        "metadata": {"name": name, "annotations": {"apportion.dev/allocation": "Immediate"}},
        "spec": SPECS[choose.choice(("gpu", "1g10gb", "npu"))],
    }
    return Unit(
        (claim,), tuple(pod(f"{name}-{user}", resourceClaimName=name) for user in range(choose.randint(0, 1)))
    )


_KINDS: Final[dict[Callable[[str, random.Random], Unit], int]] = {
    _alone: 14, _together: 2, _group: 2, _immediate: 2
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
