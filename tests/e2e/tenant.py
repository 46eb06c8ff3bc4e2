"""A team's namespace on an installation, the objects that it writes, and what it can see of the answers.

In: an installation, a namespace. Out: objects made as the administrator, and waits for what the product does with them.
Nothing here uses the product's code.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from testbed.api import Json
from testbed.eventually import eventually
from testbed.installation import Installation

RESOURCE = "/apis/resource.k8s.io/v1"
OWN = "/apis/apportion.dev/v1alpha1"
CLASSES = f"{RESOURCE}/deviceclasses"
SLICES = f"{RESOURCE}/resourceslices"
PARTITIONS = f"{OWN}/partitions"
GATE = "apportion.dev/allocation"
MANAGED = {"apportion.dev/managed": "true"}
OPERATOR = "system:serviceaccount:apportion-system:apportion-operator"
GPU, MIG, NPU, VNPU = ("gpu.apportion.dev", "mig.apportion.dev", "npu.apportion.dev", "vnpu.apportion.dev")
IMAGE = "registry.k8s.io/pause:3.10"
LEASE = ("--lease-duration", "9")
"""The shortest term of an operator's lease, so that taking over takes seconds."""
FURTHER_DRIVERS = ("--drivers=one.example.com,two.example.com", "--drivers", "three.example.com")
"""Drivers that agents have beside ours, as two overlays name them."""
PATIENCE = 30.0
"""Seconds that any one step of the product may take on a slow, busy machine."""


def profile(name: str) -> str:
    """Return the selector of a MIG profile."""
    return f'device.attributes["gpu.apportion.dev"].profile == "{name}"'


def chip(model: str, card: int) -> str:
    """Return the selector of one NPU of a node."""
    of = 'device.attributes["npu.apportion.dev"]'
    return f'{of}.model == "{model}" && {of}.cardId == {card}'


def request(device_class: str, *selectors: str, name: str = "device", **exactly: Any) -> Json:
    """Return one request for exactly one device, or what `exactly` says more."""
    found: Json = {"deviceClassName": device_class, **exactly}
    if selectors:
        found["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": found}


def first_available(*alternatives: tuple[str, str], name: str = "device") -> Json:
    """Return one request with (class, selector) alternatives in order."""
    return {
        "name": name,
        "firstAvailable": [
            {
                "name": f"way-{index}",
                "deviceClassName": device_class,
                "selectors": [{"cel": {"expression": selector}}],
            }
            for index, (device_class, selector) in enumerate(alternatives)
        ],
    }


def claim(name: str, *requests: Json, annotations: Mapping[str, str] | None = None) -> Json:
    """Return a ResourceClaim."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"devices": {"requests": list(requests)}},
    }


def device_class(name: str, expression: str, *, managed: bool = True, **labels: str) -> Json:
    """Return a DeviceClass."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": {**(MANAGED if managed else {}), **labels}},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def device_slice(name: str, driver: str, *devices: Json, pool: Mapping[str, Any] | None = None) -> Json:
    """Return a hand-made slice that every node reaches."""
    whole = {"name": f"{name}-pool", "generation": 1, "resourceSliceCount": 1, **(pool or {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "allNodes": True, "pool": whole, "devices": list(devices)},
    }


def pod(name: str, *claims: str, gates: Sequence[str] = (), **spec: Any) -> Json:
    """Return a pod that uses these claims."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "schedulingGates": [{"name": each} for each in gates],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "resources": {
                        "claims": [{"name": each} for each in claims],
                        "requests": {"cpu": "100m", "memory": "64Mi"},
                    },
                }
            ],
            **spec,
        },
    }


def devices(claim: Json) -> list[str]:
    """Return `pool/device` of a claim's allocation, none when it has none."""
    allocation = claim.get("status", {}).get("allocation", {})
    return [f"{each['pool']}/{each['device']}" for each in allocation.get("devices", {}).get("results", ())]


def used_twice(claims: Sequence[Json]) -> list[str]:
    """Return the devices that several allocations name."""
    every = [each for found in claims for each in devices(found)]
    return sorted({each for each in every if every.count(each) > 1})


def gates(pod: Json) -> list[str]:
    """Return the names of a pod's scheduling gates."""
    return [each["name"] for each in pod["spec"].get("schedulingGates", ())]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One namespace."""

    installation: Installation
    namespace: str

    async def make(self, body: Json) -> Json:
        """Make an object of this namespace, of a kind that `path` knows; returns what the API server stored."""
        return await self._api.create(self.path(body["kind"]), body)

    async def pod(self, name: str) -> Json:
        """Read a pod."""
        return await self._api.get(f"{self.path('Pod')}/{name}")

    async def claim(self, name: str) -> Json:
        """Read a claim."""
        return await self._api.get(f"{self.path('ResourceClaim')}/{name}")

    async def claims(self) -> list[Json]:
        """Read all claims."""
        found, _ = await self._api.items(self.path("ResourceClaim"))
        return found

    async def annotate(self, name: str, annotations: Mapping[str, str]) -> None:
        """Set annotations of a pod."""
        await self._api.patch(f"{self.path('Pod')}/{name}", {"metadata": {"annotations": annotations}})

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object, and wait until it is gone."""
        path = f"{self.path(kind)}/{name}"
        await self._api.delete(path)

        async def gone() -> bool:
            return await self._api.find(path) is None

        await eventually(gone, within=PATIENCE)

    async def end_by_force(self, name: str) -> None:
        """Delete a pod whose kubelet will never manage to: a driver that nobody plays."""
        await self._api.delete(f"{self.path('Pod')}/{name}", grace=0)

    async def running(self, *names: str, within: float = PATIENCE) -> list[Json]:
        """Wait until pods run, and return them."""

        async def all_of_them() -> list[Json]:
            return [await self.pod(name) for name in names]

        return await eventually(
            all_of_them,
            lambda found: all(each["status"].get("phase") == "Running" for each in found),
            within=within,
        )

    async def allocated(self, name: str, within: float = PATIENCE) -> list[str]:
        """Wait until a claim has an allocation; returns its devices."""

        async def now() -> list[str]:
            return devices(await self.claim(name))

        return await eventually(now, within=within)

    async def unallocated(self, name: str, within: float = PATIENCE) -> Json:
        """Wait until a claim has no allocation; returns the claim."""
        return await eventually(
            lambda: self.claim(name),
            lambda found: not found.get("status", {}).get("allocation"),
            within=within,
        )

    async def event(self, about: str, reason: str, *words: str, within: float = PATIENCE) -> Json:
        """Wait for an Event on an object (of any namespace) with this reason, whose message has all the words."""

        def meant(found: Json) -> bool:
            return found["reason"] == reason and all(word in found["message"] for word in words)

        async def events() -> list[Json]:
            found, _ = await self._api.items("/api/v1/events")
            return [
                {"reason": each["reason"], "message": each["message"], "type": each["type"]}
                for each in found
                if each["involvedObject"].get("name") == about
                and each["involvedObject"].get("namespace") in (None, self.namespace)
            ]

        found = await eventually(events, lambda every: any(meant(each) for each in every), within=within)
        return next(each for each in found if meant(each))

    async def unschedulable(self, name: str) -> str:
        """Wait until kube-scheduler has tried a pod in vain; returns what it said."""

        async def said() -> str:
            conditions = (await self.pod(name))["status"].get("conditions", ())
            return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), "")

        return await eventually(said, within=PATIENCE)

    async def empty(self) -> None:
        """Delete all pods and claims, and wait until they are gone."""
        for kind in ("Pod", "ResourceClaim"):
            await self._api.delete_all(self.path(kind))

        async def left() -> list[str]:
            found = [
                each
                for kind in ("Pod", "ResourceClaim")
                for each in (await self._api.items(self.path(kind)))[0]
            ]
            return [each["metadata"]["name"] for each in found]

        # Containers may take as long as that to stop.
        await eventually(left, lambda names: not names, within=2 * PATIENCE)

    def path(self, kind: str) -> str:
        """Return the address of the namespace's pods, claims or templates of claims, by their kind."""
        group = "/api/v1" if kind == "Pod" else RESOURCE
        return f"{group}/namespaces/{self.namespace}/{kind.lower()}s"

    @property
    def _api(self) -> Any:
        return self.installation.cluster.api


async def serving(installation: Installation) -> None:
    """Wait until one operator acts."""

    async def leaders() -> float:
        found = 0.0
        for index, operator in enumerate(installation.operators):
            if operator.pid is not None:
                found += await metric(installation, "apportion_leading", operator=index)
        return found

    await eventually(leaders, within=60)


async def metric(installation: Installation, name: str, operator: int = 0) -> float:
    """Return the sum of a metric over its labels; 0 when the operator does not answer."""
    url = f"http://127.0.0.1:{installation.operator_ports[operator]}/metrics"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            text = await response.text()
    except aiohttp.ClientError:
        return 0.0
    pattern = rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$"
    return sum(float(value) for value in re.findall(pattern, text, re.MULTILINE))
