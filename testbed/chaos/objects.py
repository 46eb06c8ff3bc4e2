"""Writes the claims and Partitions of one node in place of operator and scheduler.

In: a node's name, an API client. Out: claims and Partition objects in the API. No operator runs, so tests can force every
order of events, also those that the operator avoids (an object deleted while its partition is in use).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from uuid import uuid4

from testbed.api import Api, Json
from testbed.chaos.fakehardware import FakeHardware, Placement
from testbed.chaos.invariants import PERCENTAGE
from testbed.errors import ApiError, TestbedError
from testbed.kubelet.plugin import PluginError

T = TypeVar("T")
DRIVER: Final = "gpu.apportion.dev"
RDMA_DRIVER: Final = "rdma.apportion.dev"
PARTITIONS: Final = "/apis/apportion.dev/v1alpha1/partitions"
_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_POLL_SECONDS: Final = 0.02


class StuckError(TestbedError):
    """Something did not happen within the patience of the node."""


class NodeObjects:
    """The claims and Partitions of one node."""

    def __init__(self, name: str, api: Api, hardware: FakeHardware, *, patience: float) -> None:
        self.name = name
        self.api = api
        self.hardware = hardware
        self._patience = patience

    async def retry(self, ask: Callable[[], Awaitable[T | None]], what: str) -> T:
        """Call `ask` until it returns a value, through errors of plugin and API. Raises StuckError."""
        end = time.monotonic() + self._patience
        why = "no answer"
        while time.monotonic() < end:
            try:
                answer = await ask()
                if answer is not None:
                    return answer
            except (PluginError, ApiError) as error:
                why = str(error)
            await asyncio.sleep(_POLL_SECONDS)
        raise StuckError(f"{self.name}: {what} does not succeed: {why}")

    async def pause_driver(self, *, on: bool) -> None:
        """Ask for NVIDIA's driver to be let go of, as NVIDIA's driver manager does before it exchanges it, or no longer."""
        labels = {"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade" if on else "true"}
        await self.api.patch(f"/api/v1/nodes/{self.name}", {"metadata": {"labels": labels}})

    async def create_claim(self, name: str, device: str, *, gibibytes: int = 0, sharing: str = "") -> Json:
        """Create a claim that is allocated to a device and reserved.

        `gibibytes`: to so much of the memory of one that others share; `sharing`: the strategy by which its own programs share it.
        """
        share = (
            {"shareID": str(uuid4()), "consumedCapacity": {"memory": f"{gibibytes}Gi"}} if gibibytes else {}
        )
        user = {"apiGroup": "example.com", "resource": "tests", "name": "chaos", "uid": "chaos"}
        config = [_sharing_config(sharing)] if sharing else []
        return await self._allocated_claim(name, {"driver": DRIVER, "device": device, **share}, user, *config)

    async def create_network_claim(self, name: str, device: str, pod: str, parameters: Json) -> Json:
        """Create a claim that is allocated to a NIC, with its network interface, and reserved for a pod (its UID)."""
        user = {"resource": "pods", "name": name, "uid": pod}
        config = {"source": "FromClaim", "opaque": {"driver": RDMA_DRIVER, "parameters": parameters}}
        return await self._allocated_claim(name, {"driver": RDMA_DRIVER, "device": device}, user, config)

    async def _allocated_claim(self, name: str, result: Json, user: Json, *config: Json) -> Json:
        requests = [{"name": "r0", "exactly": {"deviceClassName": "any"}}]
        made = await self.api.create(
            _CLAIMS,
            {"metadata": {"name": f"{self.name}-{name}"}, "spec": {"devices": {"requests": requests}}},
        )
        selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [self.name]}]}
        status = {
            "allocation": {
                "devices": {
                    "results": [{"request": "r0", "pool": self.name, **result}],
                    "config": [*config],
                },
                "nodeSelector": {"nodeSelectorTerms": [selector]},
            },
            "reservedFor": [user],
        }
        path = f"{_CLAIMS}/{made['metadata']['name']}/status"
        return await self.api.patch(path, {"status": status})

    async def delete_claim(self, claim: Json) -> None:
        """Deallocate a claim and delete it."""
        path = f"{_CLAIMS}/{claim['metadata']['name']}"
        await self.api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
        await self.api.delete(path)

    async def create_partition(self, placement: Placement, claim: Json | None) -> None:
        """Create the Partition object of a placement, for a claim or as a warm one."""
        spec = {
            "nodeName": self.name,
            "driver": DRIVER,
            "pool": self.name,
            "device": placement.device,
            "parent": placement.card,
            "profile": placement.profile,
            "placement": {"start": placement.start, "size": placement.size},
            "origin": "Claim" if claim else "Warm",
            **({"holder": _holder(claim)} if claim else {}),
        }
        body = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "Partition",
            "metadata": {"name": self._partition_name(placement), "finalizers": ["apportion.dev/agent"]},
            "spec": spec,
        }

        async def ask() -> Json:
            # One of the same name may still be being deleted.
            return await self.api.create(PARTITIONS, body)

        await self.retry(ask, f"making the Partition of {placement.device}")

    async def set_holder(self, placement: Placement, claim: Json | None) -> None:
        """Set the holder of a Partition, or remove it."""
        path = f"{PARTITIONS}/{self._partition_name(placement)}"
        await self.api.patch(path, {"spec": {"holder": _holder(claim) if claim else None}})

    async def delete_partition(self, placement: Placement) -> None:
        """Delete a Partition object; the agent's finalizer keeps it until the hardware is gone."""
        await self.api.delete(f"{PARTITIONS}/{self._partition_name(placement)}")

    async def lose_partition(self, placement: Placement) -> None:
        """Remove a Partition object without the agent, as when etcd is restored from an old copy."""
        path = f"{PARTITIONS}/{self._partition_name(placement)}"
        await self.api.patch(path, {"metadata": {"finalizers": []}})
        await self.api.delete(path)

    async def wait_removed(self, placement: Placement) -> None:
        """Wait until a Partition object and its hardware are gone."""

        async def ask() -> bool | None:
            if any(
                (partition.card, partition.profile, partition.start)
                == (placement.card, placement.profile, placement.start)
                for partition in self.hardware.partitions()
            ):
                return None
            gone = await self.api.find(f"{PARTITIONS}/{self._partition_name(placement)}") is None
            return gone or None

        await self.retry(ask, f"removal of {placement.device}")

    def _partition_name(self, placement: Placement) -> str:
        return f"{self.name}-{placement.device}"

    async def partitions(self) -> tuple[Json, ...]:
        """Return the node's Partition objects."""
        found, _ = await self.api.items(PARTITIONS, fieldSelector=f"spec.nodeName={self.name}")
        return tuple(found)


def _sharing_config(strategy: str) -> Json:
    terms: dict[str, Json] = {
        "MPS": {"mpsConfig": {"defaultActiveThreadPercentage": PERCENTAGE}},
        "TimeSlicing": {"timeSlicingConfig": {"interval": "Long"}},
    }
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": strategy, **terms[strategy]},
    }
    return {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}


def _holder(claim: Json) -> Json:
    meta = claim["metadata"]
    return {"kind": "ResourceClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
