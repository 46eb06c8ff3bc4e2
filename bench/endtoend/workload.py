"""What one run asks of a cluster: nodes with eight H100, and pods with one template claim each.

In: numbers. Out: API objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apportion.agent.slices.shares import PublishedSharing
from apportion.api.policy import SharingStrategy
from bench.h100node import CARDS, MOST_CUT, PROFILE_SELECTORS, RESOURCES
from testbed.api import Json
from testbed.node import NodeShape

TEMPLATE: Final = "device"
SHARE: Final = "10Gi"
"""Memory of a share; seven fit on a GPU."""
_SHARING: Final = PublishedSharing(SharingStrategy.TIME_SLICING, MOST_CUT)
_REQUESTS: Final = {"cpu": "1", "memory": "4Gi"}


class Devices(StrEnum):
    """What each pod requests."""

    GPU = "gpu"
    """One whole GPU."""
    MIG = "mig"
    """One MIG partition of the smallest profile; seven fit on a card."""
    SHARE = "share"
    """A part of a GPU's memory (consumable capacity, KEP-5075), as large as such a partition's; seven fit, too."""


class Who(StrEnum):
    """Who allocates."""

    OURS = "ours"
    """The operator: namespace managed, devices guarded, pods gated by admission."""
    KUBE_SCHEDULER = "stock"
    """kube-scheduler alone, on the same slices without the guard taint; nothing of ours is installed."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One run's size."""

    nodes: int
    pods: int
    devices: Devices
    rate: float = 0.0
    """Pods made per second; 0: all at once."""
    stay: float = 0.0
    """Seconds after which a bound pod is deleted; 0: it stays."""

    @property
    def sharing(self) -> PublishedSharing | None:
        """How the nodes share their GPUs; None: they do not."""
        return _SHARING if self.devices is Devices.SHARE else None

    @property
    def capacity(self) -> int:
        """How many of these pods fit at once."""
        return self.nodes * CARDS * (1 if self.devices is Devices.GPU else MOST_CUT)

    def shapes(self) -> Iterator[NodeShape]:
        """Yield the nodes."""
        for number in range(self.nodes):
            yield NodeShape(f"h100-{number:04d}", resources=RESOURCES)

    def template(self) -> Json:
        """Return the ResourceClaimTemplate of all pods."""
        kind = Devices.MIG if self.devices is Devices.MIG else Devices.GPU
        exactly: Json = {"deviceClassName": f"{kind}.apportion.dev"}
        if self.devices is Devices.MIG:
            exactly["selectors"] = PROFILE_SELECTORS
        if self.devices is Devices.SHARE:
            exactly["capacity"] = {"requests": {"memory": SHARE}}
        spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
        return {"metadata": {"name": TEMPLATE}, "spec": {"spec": spec}}

    def names(self) -> Iterator[str]:
        """Yield the pods' names, in the order of their creation."""
        return (f"pod-{number:06d}" for number in range(self.pods))


def pod(name: str) -> Json:
    """Return a pod with a claim made from the template."""
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "device", "resourceClaimTemplateName": TEMPLATE}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"claims": [{"name": "device"}], "requests": _REQUESTS},
                }
            ],
        },
    }
