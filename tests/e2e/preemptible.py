"""A class of two cards on one node whose pods may be evicted, and pods of three priorities on it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from testbed.api import Json
from testbed.installation import Installation
from tests.e2e.clusterobjects import known, objects
from tests.e2e.tenant import CLASSES, OWN, Tenant, claim, device_class, pod, profile, request

CLASS = "preemptible"
FIRST, SECOND = "0000:18:00.0", "0000:19:00.0"
_BUS = 'device.attributes["resource.kubernetes.io"].pciBusID'
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def on_card(bus: str) -> str:
    """Return the selector of one card."""
    return f'{_BUS} == "{bus}"'


@asynccontextmanager
async def preemptible(
    installation: Installation, cards: Sequence[str] = (FIRST, SECOND), **more: str
) -> AsyncIterator[None]:
    """Make the class, its policy and the priorities; `more` are fields of `spec.preemption`."""
    own = 'device.driver == "gpu.apportion.dev" && device.attributes["gpu.apportion.dev"].type == "mig"'
    buses = ", ".join(f'"{each}"' for each in cards)
    policy = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": CLASS},
        "spec": {
            "deviceClasses": {"names": [CLASS]},
            "preemption": {
                "mode": "LowerPriority",
                "after": "1s",
                "minRuntime": "0s",
                "cooldown": "10s",
                **more,
            },
        },
    }
    made = [(CLASSES, device_class(CLASS, f"{own} && {_BUS} in [{buses}]", managed=False))]
    for name, value, preempts in (
        ("low", 10, "PreemptLowerPriority"),
        ("high", 1000, "PreemptLowerPriority"),
        ("polite", 1000, "Never"),
    ):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": preempts,
        }
        made.append((_PRIORITIES, body))
    policies = f"{OWN}/allocationpolicies"
    async with objects(installation, (policies, policy)):
        # Without it the class would be nobody's, and the pods would lose their gates.
        await known(installation, f"{policies}/{CLASS}")
        async with objects(installation, *made):
            yield


async def ask(tenant: Tenant, name: str, wanted: str, priority: str, *selectors: str, **spec: Any) -> Json:
    """Make a claim for a partition, and a pod of this priority that uses it."""
    await tenant.make(claim(name, request(CLASS, profile(wanted), *selectors)))
    where = {"kubernetes.io/hostname": "h100-b"}
    return await tenant.make(pod(name, name, priorityClassName=priority, nodeSelector=where, **spec))


async def ask_together(tenant: Tenant, *names: str, wanted: str, priority: str) -> None:
    """Make pods of this priority that are one group, each with a claim for a partition."""
    for name in names:
        await tenant.make(claim(name, request(CLASS, profile(wanted))))
        made = pod(name, name, priorityClassName=priority, nodeSelector={"kubernetes.io/hostname": "h100-b"})
        made["metadata"]["labels"]["apportion.dev/pod-group"] = "together"
        made["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": str(len(names))}
        await tenant.make(made)


async def protect(tenant: Tenant, app: str) -> None:
    """Make a PodDisruptionBudget that lets no pod of this label go."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"keep-{app}"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }
    path = f"/apis/policy/v1/namespaces/{tenant.namespace}/poddisruptionbudgets"
    await tenant.installation.cluster.api.create(path, body)
