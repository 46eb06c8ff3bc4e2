"""The plan of a run: the steady pods of one tenant, and the crowd of all others.

In: numbers. Out: namespaces, quotas, templates and pods; or BrokenInput that names the option.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from apportion.cluster.kinds import QUOTAS
from apportion.errors import BrokenInput
from bench.endtoend.workload import Workload
from bench.h100node import CARDS, PROFILE_SELECTORS
from testbed.api import Json

PLACE: Final = "bench/crowd"
"""Label of the nodes that the crowd's pods select."""
_COHORTS: Final = 10
_GUARANTEED, _LIMIT = 4, 40
"""GPUs of each tenant."""
_ALONE: Final = 2.0
"""How many times as many nodes are left to the steady pods as they need, and a node at least."""
_GPU: Final = {"deviceClassName": "gpu.apportion.dev"}
_MIG: Final = {"deviceClassName": "mig.apportion.dev"}
SHAPES: Final[dict[str, tuple[int, Json]]] = {
    "one": (50, {"exactly": _GPU}),
    "two": (15, {"exactly": _GPU | {"count": 2}}),
    "eight": (5, {"exactly": _GPU | {"count": CARDS}}),
    "part": (20, {"exactly": _MIG | {"selectors": PROFILE_SELECTORS}}),
    "either": (
        10,
        {
            "firstAvailable": [
                {"name": "two", **_GPU, "count": 2},
                {"name": "part", **_MIG, "selectors": PROFILE_SELECTORS},
            ]
        },
    ),
}
"""What pods ask for, with how many of a hundred do."""


@dataclass(frozen=True, slots=True)
class CrowdPlan:
    """What is run."""

    workload: Workload
    """The steady pods, and all nodes."""
    tenants: int
    waiting: int
    """Pods of the crowd, most of which wait."""
    stay: float
    """Seconds for which each that is bound runs, on average."""
    quotas: bool
    """Whether each tenant has an AcceleratorQuota."""
    seconds: int
    """How long the crowd is measured after its last pod was made."""
    seed: int

    @property
    def crowded(self) -> int:
        """How many of the nodes are the crowd's."""
        work = self.workload
        alone = work.rate * (work.stay + 1.0) * _ALONE / CARDS
        return work.nodes - max(1, round(alone))

    def check(self) -> None:
        """Raise BrokenInput for a cluster in which nothing is left to the crowd, and for a crowd of which all fit."""
        if self.crowded < 1:
            raise BrokenInput(
                f"--nodes {self.workload.nodes}: the steady pods take all of them; more nodes, or a lower --rate"
            )
        if self.waiting <= self.crowded * CARDS:
            raise BrokenInput(
                f"--waiting {self.waiting}: as many fit on {self.crowded} nodes with {CARDS} GPUs each, so that nobody waits"
            )

    def names(self) -> list[str]:
        """Return the tenants' namespaces."""
        return [f"tenant-{number:04d}" for number in range(self.tenants)]

    def quota(self, number: int, team: str) -> Json:
        """Return the quota of a tenant."""
        gpus = {
            "name": "gpus",
            "deviceClass": "gpu.apportion.dev",
            "guaranteed": _GUARANTEED,
            "limit": _LIMIT,
        }
        memory = {"name": "memory", "capacity": "memory", "limit": "8Ti"}
        spec = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
            "cohort": f"cohort-{number % _COHORTS}",
            "resources": [gpus, memory],
        }
        metadata = {"name": team}
        return {"apiVersion": QUOTAS.api_version, "kind": QUOTAS.name, "metadata": metadata, "spec": spec}

    def templates(self) -> Iterator[Json]:
        """Yield a ResourceClaimTemplate for each shape."""
        for name, (_, request) in SHAPES.items():
            spec = {"devices": {"requests": [{"name": "device", **request}]}}
            yield {"metadata": {"name": name}, "spec": {"spec": spec}}

    def pods(self) -> Iterator[tuple[str, Json]]:
        """Yield the pods of the crowd with their namespaces: few tenants have most of them."""
        rng, names = Random(self.seed), self.names()
        shapes, weights = [*SHAPES], [weight for weight, _ in SHAPES.values()]
        for number in range(self.waiting):
            team = names[int(rng.random() ** 2 * len(names))]
            [shape] = rng.choices(shapes, weights)
            yield team, _pod(f"crowd-{number:06d}", shape)


def _pod(name: str, shape: str) -> Json:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"claims": [{"name": "device"}], "requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {PLACE: "true"},
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": shape}],
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}
