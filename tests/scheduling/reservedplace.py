"""A namespace in which claims of gated pods are reserved with their allocation, on a real control plane."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apportion.api.contract import GATE
from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.dra.selection import NodeSelector
from apportion.errors import Missing
from apportion.scheduling.writing.writer import Writer
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from testbed.node import NodeShape
from testbed.nodes import simulated_nodes

_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"
_SMALL = {"cpu": "1", "memory": "8Gi", "pods": "20"}
LONG = 60.0
"""Seconds: longer than kube-scheduler takes on a busy machine, also where it sees a pod before the devices of its claim and tries it once more."""


@dataclass(frozen=True)
class Place:
    """A namespace in which pods get claims from a template, and what writes there."""

    cluster: ControlPlane
    client: Client
    writer: Writer
    namespace: str

    async def pod(self, name: str, *, cpu: str = "1m") -> tuple[Pod, Claim]:
        """Make a gated pod; return it with the claim that controller-manager made for it."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "schedulingGates": [{"name": GATE}],
                "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "device"}],
                "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
                "terminationGracePeriodSeconds": 0,
            },
        }
        await self.client.create(PODS, body, namespace=self.namespace)
        pod = await eventually(lambda: self.read(name), lambda found: bool(found and found.claims[0].claim))
        claim = await self.claim_of(pod)
        assert claim is not None
        return pod, claim

    async def allocated(self, name: str, node: str, *, cpu: str = "1m") -> tuple[Pod, Claim]:
        """Make a gated pod whose claim is allocated and reserved for it."""
        pod, claim = await self.pod(name, cpu=cpu)
        results = (DeviceResult("device", DeviceId("d.example.com", node, "dev")),)
        allocation = Allocation(results, node_selector=NodeSelector.of_name(node))
        await self.writer.allocate(claim, allocation, await self.writer.protect(claim), pod)
        found = await self.claim_of(pod)
        assert found is not None
        return pod, found

    async def read(self, name: str) -> Pod:
        return Pod.from_json(await self.client.get(PODS, name, namespace=self.namespace))

    async def claim_of(self, pod: Pod) -> Claim | None:
        assert pod.claims[0].claim is not None
        try:
            return Claim.from_json(
                await self.client.get(CLAIMS, pod.claims[0].claim, namespace=self.namespace)
            )
        except Missing:
            return None

    async def nominated_by(self, name: str, node: str) -> str:
        """Return who writes into the status of a pod for which node it is nominated, when it loses its gate and is nominated for `node`.

        Binding empties the field, and so does kube-scheduler where it sees the pod before the devices of its claim. Then another pod is made.
        """
        pod, _ = await self.allocated(name, "reserved-large")
        selectors = {"fieldSelector": f"metadata.namespace={self.namespace},metadata.name={name}"}
        before = await self.client.get(PODS, name, namespace=self.namespace)
        await self.writer.ungate(pod, node=node)
        found = ""
        async for event in self.client.watch(PODS, before["metadata"]["resourceVersion"], selectors):
            shown = event["object"]
            conditions = shown.get("status", {}).get("conditions", ())
            if any(each.get("reason") == "Unschedulable" for each in conditions):
                return await self.nominated_by(f"{name}-more", node)
            for each in shown["metadata"].get("managedFields", ()):
                if "f:nominatedNodeName" in each["fieldsV1"].get("f:status", {}):
                    found = each["manager"]
            if "nodeName" in shown["spec"]:
                break
        assert (await self.read(name)).node == "reserved-large"
        return found

    async def bind(self, pod: Pod, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": target}
        await self.cluster.api.create(f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}/binding", body)

    @contextmanager
    def controller_manager_away(self) -> Iterator[None]:
        """Let controller-manager do nothing within a block."""
        pid = self.cluster.processes["kube-controller-manager"].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def bound(self, name: str) -> Pod:
        return await eventually(lambda: self.read(name), lambda found: found.node is not None)


@asynccontextmanager
async def clearing(
    place: Place,
    folder: Path,
    pod: Pod,
    claim: Claim,
    *rules: Rule,
    fence: Callable[[], None] = lambda: None,
    patience: float = LONG,
) -> AsyncIterator[tuple[FaultyProxy, asyncio.Task[bool]]]:
    """Clear a claim; its pod was not bound when it was read, and is when the first write is under way, which is held until `let_go`.

    The client waits for `patience` seconds, by default for longer than a pod takes to be bound. `rules`: what goes wrong with that write.
    controller-manager does nothing within the block.
    """
    async with (
        FaultyProxy(place.cluster.kubeconfig) as proxy,
        await connect(
            proxy.kubeconfig(folder / "proxied"), patience=patience, manager="apportion-operator"
        ) as client,
    ):
        proxy.rules = [Rule(Fault.HOLD_REQUEST, "PATCH", "/status", times=1, seconds=2 * LONG), *rules]
        writer = Writer(client, fence=fence, now=lambda: datetime.now(UTC))
        task = asyncio.create_task(writer.clear(claim, pod))

        async def is_held() -> bool:
            return proxy.faults[Fault.HOLD_REQUEST] == 1

        await eventually(is_held)
        await place.writer.ungate(pod)
        await place.bound(pod.name)
        with place.controller_manager_away():
            yield proxy, task


async def handed_on(proxy: FaultyProxy, path: str) -> bool:
    """Say whether a request that was held has reached the server."""
    return any(path in each for each in proxy.answered)


@asynccontextmanager
async def place_in(cluster: ControlPlane, namespace: str) -> AsyncIterator[Place]:
    request = {"name": "device", "exactly": {"deviceClassName": "none"}}
    template: dict[str, Any] = {
        "metadata": {"name": "device"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    await cluster.api.create(_TEMPLATES.format(namespace), template)
    nodes = [NodeShape("reserved-small", resources=_SMALL), NodeShape("reserved-large")]
    async with (
        simulated_nodes(cluster, nodes),
        await connect(cluster.kubeconfig, manager="apportion-operator") as client,
    ):
        writer = Writer(client, fence=lambda: None, now=lambda: datetime.now(UTC))
        yield Place(cluster, client, writer, namespace)
