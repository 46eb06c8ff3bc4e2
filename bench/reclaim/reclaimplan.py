"""The plan of a run: teams that have borrowed all GPUs, and teams to which some are guaranteed.

In: numbers. Out: quotas, a policy, a template and Deployments; or BrokenInput that names the option.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from apportion.cluster.kinds import POLICIES, QUOTAS
from apportion.errors import BrokenInput
from bench.endtoend.workload import Devices, Workload
from bench.h100node import CARDS
from testbed.api import Json

TEMPLATE: Final = "gpu"
_COHORT: Final = "all"
_MORE: Final = 1.25
"""How many times as many pods the borrowers want as there are GPUs."""


@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """What is run."""

    nodes: int
    borrowers: int
    owners: int
    guaranteed: int
    """GPUs of each team; of an owner's pods, a GPU each, one more waits."""

    @property
    def workload(self) -> Workload:
        """The nodes."""
        return Workload(self.nodes, 0, Devices.GPU)

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.nodes * CARDS

    def check(self) -> None:
        """Raise BrokenInput where more is guaranteed than there is."""
        if (self.borrowers + self.owners) * self.guaranteed > self.gpus:
            raise BrokenInput(
                f"--guaranteed {self.guaranteed}: {self.borrowers + self.owners} teams have more than the {self.gpus} GPUs of {self.nodes} nodes"
            )

    def of_borrowers(self) -> list[str]:
        """Return the namespaces of those that come first and take all."""
        return [f"borrower-{number:03d}" for number in range(self.borrowers)]

    def of_owners(self) -> list[str]:
        """Return the namespaces of those that come then."""
        return [f"owner-{number:03d}" for number in range(self.owners)]

    def policy(self) -> Json:
        """Return a policy by which pods go after a second, however short they have run."""
        spec = {
            "deviceClasses": {"names": ["gpu.apportion.dev"]},
            "preemption": {"after": "1s", "minRuntime": "0s"},
        }
        return {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.name,
            "metadata": {"name": "reclaim"},
            "spec": spec,
        }

    def quotas(self) -> Iterator[Json]:
        """Yield a quota for each team; all take back from each other."""
        for team in (*self.of_borrowers(), *self.of_owners()):
            gpus = {
                "name": "gpus",
                "deviceClass": "gpu.apportion.dev",
                "guaranteed": self.guaranteed,
            }
            spec = {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
                "cohort": _COHORT,
                "reclaimWithinCohort": "Any",
                "resources": [gpus],
            }
            yield {
                "apiVersion": QUOTAS.api_version,
                "kind": QUOTAS.name,
                "metadata": {"name": team},
                "spec": spec,
            }

    def template(self) -> Json:
        """Return the ResourceClaimTemplate of all pods."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.apportion.dev"}}
        return {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": {"requests": [request]}}}}

    def deployments(self, teams: list[str]) -> Iterator[tuple[str, Json]]:
        """Yield the Deployment of each of these teams with its namespace."""
        each = self.guaranteed + 1
        if teams == self.of_borrowers():
            each = round(self.gpus * _MORE / self.borrowers)
        for team in teams:
            yield team, _deployment(each)


def _deployment(pods: int) -> Json:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
        "containers": [container],
    }
    labels = {"app": "work"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "work"},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels}, "template": template},
    }
