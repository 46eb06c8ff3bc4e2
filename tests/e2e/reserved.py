"""A large pod on a node that small ones use: what a team sees of its reservation, on any version of Kubernetes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from testbed.installation import Installation
from tests.e2e.clusterobjects import objects
from tests.e2e.tenant import CLASSES, OWN, Tenant, claim, device_class, devices, pod, request

RUNTIME = "apportion.dev/max-runtime"
CHIPS = 'device.driver == "npu.apportion.dev" && device.attributes["npu.apportion.dev"].model == "910B4"'
WHOLE = f'{CHIPS} && device.attributes["npu.apportion.dev"].type == "npu"'


@asynccontextmanager
async def reserving(installation: Installation) -> AsyncIterator[str]:
    """Make a class of the eight 910B4 of one node, whose policy reserves devices at once."""
    policy = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "reserving"},
        "spec": {"deviceClasses": {"names": ["reserving"]}, "queue": {"reserveAfter": "0s"}},
    }
    made = (CLASSES, device_class("reserving", WHOLE)), (f"{OWN}/allocationpolicies", policy)
    async with objects(installation, *made):
        yield "reserving"


async def comes(team: Tenant, name: str, of: str, count: int, runtime: str = "", **spec: Any) -> None:
    """Make a pod with a claim for so many devices."""
    await team.make(claim(name, request(of, count=count)))
    raw = pod(name, name, **spec)
    raw["metadata"]["annotations"] = {RUNTIME: runtime} if runtime else {}
    await team.make(raw)


async def a_second_later() -> None:
    """Wait until what comes is younger: creation times are whole seconds, and of two of one second either may go first."""
    await asyncio.sleep(1.0)


async def large_waits(team: Tenant, of: str, *words: str) -> None:
    """Let `old` run for an hour, `large` wait for its devices and those beside it, with these words in its Event, and `silent` wait behind it."""
    await comes(team, "old", of, 5, "1h")
    await team.running("old")
    await comes(team, "large", of, 8)
    await team.event("large", "Reserved", *words)
    await a_second_later()
    await comes(team, "silent", of, 1)


async def large_pod_is_served(team: Tenant, of: str) -> None:
    """A large pod is overtaken only by one that has ended before, and starts when the devices are free."""
    await large_waits(team, of, "expected to start at", f"{team.namespace}/old")
    await comes(team, "short", of, 1, "10m")
    await team.running("short")
    await team.event("silent", "ClaimsNotAllocated")
    assert devices(await team.claim("silent")) == []

    for name in ("old", "short"):
        await team.delete("Pod", name)
    await team.running("large")
    assert len(await team.allocated("large")) == 8
    assert devices(await team.claim("silent")) == []

    await team.delete("Pod", "large")
    await team.running("silent")
