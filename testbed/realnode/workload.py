"""Pods on a real node.

In: an installation, a namespace, which device is wanted. Out: a running pod with what its container saw: environment, device files.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.errors import NotReadyInTimeError
from testbed.eventually import eventually
from testbed.example import Example
from testbed.realnode.images import IMAGE
from testbed.realnode.node import RealNode

_LOOK_SECONDS = 0.03
_PATIENCE_SECONDS = 60.0
MANAGED: Final = {"apportion.dev/managed": "true"}


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The device that a claim asks for."""

    title: str
    device_class: str
    expression: str
    memory: str = ""
    """The part of a shared GPU's memory that it asks for."""
    parameters: Json | None = None
    """Opaque parameters for the class's driver."""
    host_network: bool = True
    """Whether its pods are in the host's network; others have one of their own, which leads nowhere."""

    @property
    def name(self) -> str:
        """Prefix for the names of its pods."""
        return self.device_class.split(".")[0]


def mig(profile: str) -> DeviceRequest:
    """Ask for a MIG partition."""
    attribute = f'device.attributes["gpu.apportion.dev"].profile == "{profile}"'
    return DeviceRequest(f"MIG {profile}", "mig.apportion.dev", attribute)


def gpu(uuid: str) -> DeviceRequest:
    """Ask for a whole GPU, by its UUID."""
    attribute = f'device.attributes["gpu.apportion.dev"].uuid == "{uuid}"'
    return DeviceRequest(f"GPU {uuid}", "gpu.apportion.dev", attribute)


def share(memory: str) -> DeviceRequest:
    """Ask for a part of a shared GPU."""
    return DeviceRequest(f"{memory} of a GPU", "gpu.apportion.dev", "device.allowMultipleAllocations", memory)


def vnpu(template: str) -> DeviceRequest:
    """Ask for a vNPU."""
    attribute = f'device.attributes["npu.apportion.dev"].template == "{template}"'
    return DeviceRequest(f"vNPU {template}", "vnpu.apportion.dev", attribute)


def network_device(*, host_network: bool = False, **parameters: Any) -> DeviceRequest:
    """Ask for a NIC with its network device."""
    body = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig", **parameters}
    return DeviceRequest("NIC", "rdma.apportion.dev", "true", parameters=body, host_network=host_network)


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A running pod, and what its container printed."""

    pod: Json
    claim: Json
    environment: dict[str, str]
    devices: dict[str, str]
    """`major:minor` of every device file, by path."""
    metadata: dict[str, str]
    """Content of every device metadata file, by path."""
    interfaces: dict[str, str]
    """MTU and addresses of every network interface, by name."""
    allocated: float
    """Seconds from making the pod to its claim's allocation."""
    started: float
    """Seconds from the allocation to phase Running."""

    @property
    def device(self) -> str:
        """Name of the device that the claim got."""
        results = self.claim["status"]["allocation"]["devices"]["results"]
        name: str = results[0]["device"]
        return name


class Workload:
    """Pods in one namespace of an installation."""

    def __init__(self, cluster: ControlPlane, node: RealNode, namespace: str) -> None:
        self._api = cluster.api
        self._node = node
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"

    async def create(
        self,
        name: str,
        wanted: DeviceRequest,
        *,
        restart: str = "Never",
        container: Json | None = None,
        volumes: Sequence[Json] = (),
    ) -> None:
        """Create a claim and a pod of the same name that uses it; `container`: fields that its container has besides."""
        exactly = {
            "deviceClassName": wanted.device_class,
            "selectors": [{"cel": {"expression": wanted.expression}}],
            **({"capacity": {"requests": {"memory": wanted.memory}}} if wanted.memory else {}),
        }
        claim: Json = {
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "part", "exactly": exactly}]}},
        }
        if wanted.parameters is not None:
            opaque = {"driver": wanted.device_class, "parameters": wanted.parameters}
            claim["spec"]["devices"]["config"] = [{"opaque": opaque}]
        await self._api.create(self._claims, claim)
        more = {"hostNetwork": wanted.host_network, "restartPolicy": restart, "volumes": list(volumes)}
        await self._create_pod(name, name, more, container)

    async def example(self, example: Example) -> Json:
        """Create what an example has, with the image that is here, and wait until its pod runs."""
        (name,) = example.pods()
        for raw in example.objects:
            if raw["kind"] == "Pod":
                containers = [
                    each | {"image": IMAGE, "imagePullPolicy": "Never"} for each in raw["spec"]["containers"]
                ]
                more = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5}
                await self._api.create(
                    self._pods, raw | {"spec": {**raw["spec"], **more, "containers": containers}}
                )
            else:
                await self._api.create(self._claims.replace("claims", "claimtemplates"), raw)
        return await self.running(name)

    async def join(self, name: str, claim: str) -> None:
        """Create a pod that uses a claim which is there, straight on the node: no scheduler and no gate sees it."""
        await self._create_pod(name, claim, {"nodeName": self._node.name, "restartPolicy": "Never"})

    async def create_without(self, name: str, container: Json, volumes: Sequence[Json]) -> None:
        """Create a pod that has no claim."""
        more = {"hostNetwork": True, "restartPolicy": "Never", "volumes": list(volumes)}
        await self._create_pod(name, None, more, container)

    async def _create_pod(self, name: str, claim: str | None, more: Json, fields: Json | None = None) -> None:
        claims = [] if claim is None else [{"name": "part", "resourceClaimName": claim}]
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "resources": {
                "claims": [{"name": each["name"]} for each in claims],
                "requests": {"cpu": "10m", "memory": "16Mi"},
            },
            **(fields or {}),
        }
        spec = {
            **more,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            "resourceClaims": claims,
            "containers": [container],
        }
        await self._api.create(self._pods, {"metadata": {"name": name}, "spec": spec})

    async def run(self, name: str, wanted: DeviceRequest, *, restart: str = "Never") -> RunningPod:
        """Create claim and pod, and wait until the container has printed what it sees."""
        began = time.monotonic()
        await self.create(name, wanted, restart=restart)
        allocated: float | None = None
        while True:
            now = time.monotonic()
            if allocated is None and "allocation" in (await self.claim(name)).get("status", {}):
                allocated = now
            pod = await self.pod(name)
            if pod["status"].get("phase") == "Running":
                break
            if now - began > _PATIENCE_SECONDS:
                raise NotReadyInTimeError(f"pod {name} does not run; its status is {pod['status']}")
            await asyncio.sleep(_LOOK_SECONDS)
        running = time.monotonic()
        lines = await self.printed(pod)
        return RunningPod(
            pod=pod,
            claim=await self.claim(name),
            environment=dict(
                line.removeprefix("env ").split("=", 1) for line in lines if line.startswith("env ")
            ),
            devices={
                words[1]: words[2] for line in lines if (words := line.split())[:1] == ["device"]
            },
            metadata=dict(
                line.removeprefix("file ").split(" ", 1) for line in lines if line.startswith("file ")
            ),
            interfaces=dict(
                line.removeprefix("interface ").split(" ", 1) for line in lines if line.startswith("interface ")
            ),
            allocated=(allocated or running) - began,
            started=running - (allocated or running),
        )  # fmt: skip

    async def printed(self, pod: Json) -> list[str]:
        """Wait until the pod's container has printed everything, and return the lines of its last run."""

        async def lines() -> list[str]:
            return self._node.output(pod)

        return await eventually(lines, lambda found: "ready" in found)

    async def delete(self, name: str) -> None:
        """Delete pod and claim, and wait until they are gone."""
        await self._api.delete(f"{self._pods}/{name}")
        await eventually(lambda: self._absent(f"{self._pods}/{name}"), within=_PATIENCE_SECONDS)
        await self._api.delete(f"{self._claims}/{name}")
        await eventually(lambda: self._absent(f"{self._claims}/{name}"), within=_PATIENCE_SECONDS)

    async def ask_to_go(self, name: str) -> None:
        """Delete a pod, and do not wait."""
        await self._api.delete(f"{self._pods}/{name}")

    async def delete_by_force(self, name: str) -> None:
        """Delete the pod from the API at once, without waiting for kubelet."""
        await self._api.delete(f"{self._pods}/{name}", grace=0)

    async def empty(self) -> None:
        """Delete all pods and claims, and wait until they are gone."""
        for collection in (self._pods, self._claims):
            await self._api.delete_all(collection)

            async def gone(path: str = collection) -> bool:
                return not (await self._api.items(path))[0]

            await eventually(gone, within=_PATIENCE_SECONDS)

    async def running(self, name: str) -> Json:
        """Wait until a pod runs, and return it."""
        return await eventually(
            lambda: self.pod(name),
            lambda pod: pod["status"].get("phase") == "Running",
            within=_PATIENCE_SECONDS,
        )

    async def pod(self, name: str) -> Json:
        """Read a pod."""
        return await self._api.get(f"{self._pods}/{name}")

    async def claim(self, name: str) -> Json:
        """Read a claim."""
        return await self._api.get(f"{self._claims}/{name}")

    async def events(self, name: str) -> str:
        """Return the messages of a pod's Events, in one text."""
        found, _ = await self._api.items(
            self._pods.replace("/pods", "/events"), fieldSelector=f"involvedObject.name={name}"
        )
        return "\n".join(each.get("message", "") for each in found)

    async def _absent(self, path: str) -> bool:
        return await self._api.find(path) is None
