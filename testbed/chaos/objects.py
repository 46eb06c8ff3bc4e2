"""The objects of one node: a hand that plays the operator and whoever else writes claims and Partitions.

The operator is played, not run: so every order of events can be forced, also those that the real one avoids (an object
deleted while its partition runs), and a run needs no scheduler.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from testbed.api import Api, Json
from testbed.chaos.ground import Ground, Place
from testbed.errors import ApiError, TestbedError
from testbed.plugin import PluginError

T = TypeVar("T")
DRIVER: Final = "gpu.apportion.dev"
PARTITIONS: Final = "/apis/apportion.dev/v1alpha1/partitions"
_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_LOOK: Final = 0.02


class StuckError(TestbedError):
    """Something does not come right, however long one waits."""


class Objects:
    """What one node's claims and Partitions are led through."""

    def __init__(self, name: str, api: Api, ground: Ground, *, patience: float) -> None:
        self.name = name
        self.api = api
        self.ground = ground
        self._patience = patience

    async def insist(self, ask: Callable[[], Awaitable[T | None]], what: str) -> T:
        """Ask until there is an answer, whoever dies meanwhile. Raises StuckError."""
        end = time.monotonic() + self._patience
        why = "no answer"
        while time.monotonic() < end:
            try:
                answer = await ask()
                if answer is not None:
                    return answer
            except (PluginError, ApiError) as error:
                why = str(error)
            await asyncio.sleep(_LOOK)
        raise StuckError(f"{self.name}: {what} does not succeed: {why}")

    async def claim(self, name: str, device: str) -> Json:
        """Make a claim, allocated to a device and reserved."""
        requests = [{"name": "r0", "exactly": {"deviceClassName": "any"}}]
        made = await self.api.create(
            _CLAIMS,
            {"metadata": {"name": f"{self.name}-{name}"}, "spec": {"devices": {"requests": requests}}},
        )
        selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [self.name]}]}
        status = {
            "allocation": {
                "devices": {
                    "results": [{"request": "r0", "driver": DRIVER, "pool": self.name, "device": device}]
                },
                "nodeSelector": {"nodeSelectorTerms": [selector]},
            },
            "reservedFor": [
                {"apiGroup": "example.com", "resource": "tests", "name": "chaos", "uid": "chaos"}
            ],
        }
        path = f"{_CLAIMS}/{made['metadata']['name']}/status"
        return await self.api.patch(path, {"status": status})

    async def forget(self, claim: Json) -> None:
        """Deallocate a claim and delete it."""
        path = f"{_CLAIMS}/{claim['metadata']['name']}"
        await self.api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
        await self.api.delete(path)

    async def wish(self, place: Place, claim: Json | None) -> None:
        """Make the Partition object of a place, for a claim or as a warm one."""
        spec = {
            "nodeName": self.name,
            "driver": DRIVER,
            "pool": self.name,
            "device": place.device,
            "parent": place.card,
            "profile": place.profile,
            "placement": {"start": place.start, "size": place.size},
            "origin": "Claim" if claim else "Warm",
            **({"holder": _holder(claim)} if claim else {}),
        }
        body = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "Partition",
            "metadata": {"name": self._partition(place), "finalizers": ["apportion.dev/agent"]},
            "spec": spec,
        }

        async def ask() -> Json:
            # One of the same name may be on its way out.
            return await self.api.create(PARTITIONS, body)

        await self.insist(ask, f"making the Partition of {place.device}")

    async def hold(self, place: Place, claim: Json | None) -> None:
        """Give a Partition another holder, or none."""
        path = f"{PARTITIONS}/{self._partition(place)}"
        await self.api.patch(path, {"spec": {"holder": _holder(claim) if claim else None}})

    async def drop(self, place: Place) -> None:
        """Delete a Partition object; the agent's finalizer keeps it until the hardware is gone."""
        await self.api.delete(f"{PARTITIONS}/{self._partition(place)}")

    async def lose(self, place: Place) -> None:
        """Let a Partition object vanish at once, as when etcd is restored from an old copy."""
        path = f"{PARTITIONS}/{self._partition(place)}"
        await self.api.patch(path, {"metadata": {"finalizers": []}})
        await self.api.delete(path)

    async def gone(self, place: Place) -> None:
        """Wait until a Partition object and its hardware are gone."""

        async def ask() -> bool | None:
            if any(
                (cut.card, cut.profile, cut.start) == (place.card, place.profile, place.start)
                for cut in self.ground.cuts()
            ):
                return None
            try:
                await self.api.get(f"{PARTITIONS}/{self._partition(place)}")
            except ApiError as error:
                if error.status == 404:
                    return True
                raise
            return None

        await self.insist(ask, f"removal of {place.device}")

    def _partition(self, place: Place) -> str:
        return f"{self.name}-{place.device}"

    async def partitions(self) -> tuple[Json, ...]:
        """Read the node's Partition objects."""
        found, _ = await self.api.items(PARTITIONS, fieldSelector=f"spec.nodeName={self.name}")
        return tuple(found)


def _holder(claim: Json) -> Json:
    meta = claim["metadata"]
    return {"kind": "ResourceClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
