"""A control plane with nodes of so many devices each, an operator, and namespaces whose pods have claims for them.

In: numbers of nodes and devices. Out: the control plane; bodies of claims and pods. Nobody binds the pods, and no node has an agent.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.components import APISERVER, CONTROLLER_MANAGER, ETCD
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.node import NodeObject, NodeShape

CLASS: Final = "gangs.example.com"
RESOURCE: Final = "/apis/resource.k8s.io/v1"
_MANAGED: Final = {"apportion.dev/managed": "true"}
_TOGETHER: Final = 16
"""Requests in flight while nodes and slices are made."""


@dataclass(frozen=True, slots=True)
class PodsOf:
    """Where the pods and claims of one namespace are."""

    namespace: str

    def pods(self, name: str = "") -> str:
        """Return the path of a pod, or of all."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}".rstrip("/")

    def claims(self, name: str = "") -> str:
        """Return the path of a claim, or of all."""
        return f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims/{name}".rstrip("/")


def claim(name: str, count: int) -> Json:
    """Return a claim for so many devices."""
    exactly = {"deviceClassName": CLASS, "count": count}
    spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, group: str = "", least: int = 0) -> Json:
    """Return a pod with the claim of its name; of a group that needs so many, if one is given."""
    labels = {"apportion.dev/pod-group": group} if group else {}
    annotations = {"apportion.dev/pod-group-min-count": str(least)} if group else {}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "resourceClaims": [{"name": "devices", "resourceClaimName": name}],
            "containers": [
                {"name": "main", "image": "pause", "resources": {"claims": [{"name": "devices"}]}}
            ],
        },
    }


@asynccontextmanager
async def cluster_of_devices(
    binaries: Binaries, nodes: int, devices: int
) -> AsyncIterator[tuple[ControlPlane, Installation]]:
    """Run a control plane with so many nodes of so many devices each, and an operator."""
    async with (
        ControlPlane(binaries=binaries, components=(ETCD, APISERVER, CONTROLLER_MANAGER)) as cluster,
        Installation(cluster, (), agents=False) as installation,
    ):
        expression = f'device.driver == "{CLASS}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        body = {"metadata": {"name": CLASS, "labels": _MANAGED}, "spec": spec}
        await cluster.api.create(f"{RESOURCE}/deviceclasses", body)
        slots = asyncio.Semaphore(_TOGETHER)

        async def make(name: str) -> None:
            async with slots:
                await NodeObject(cluster.api, NodeShape(name), cluster.version).refresh()
                await cluster.api.create(f"{RESOURCE}/resourceslices", _slice(name, devices))

        await asyncio.gather(*(make(f"n{number:03d}") for number in range(nodes)))
        yield cluster, installation


def _slice(node: str, devices: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    rows = [{"name": f"device-{number}"} for number in range(devices)]
    spec = {"driver": CLASS, "nodeName": node, "pool": pool, "devices": rows}
    return {"metadata": {"name": f"{node}-devices"}, "spec": spec}


async def gated_namespace(cluster: ControlPlane, prefix: str) -> PodsOf:
    """Make a namespace, and wait until admission adds the gate to new pods: the API server takes a moment to follow a new policy."""
    found = PodsOf(await cluster.make_namespace(prefix, _MANAGED))

    async def made() -> Json:
        return await cluster.api.create(found.pods(), pod("probe"), dryRun="All")

    await eventually(made, lambda each: each["spec"].get("schedulingGates"), within=60)
    return found


async def show_nobody(cluster: ControlPlane) -> None:
    """Let groups for which there are too few nodes keep their gates: no autoscaler is to see them."""
    body = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "gangs"},
        "spec": {"deviceClasses": {"names": [CLASS]}, "queue": {"autoscale": "Never"}},
    }
    await cluster.api.create("/apis/apportion.dev/v1alpha1/allocationpolicies", body)
