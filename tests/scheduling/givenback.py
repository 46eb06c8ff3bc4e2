"""Passes in which the cycle tries to give allocations back; the server that would take them does not answer."""

import asyncio
from typing import Any

from structlog.testing import capture_logs

from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet

UNUSED_TIMEOUT = 60.0


async def tried(cycle: Cycle, event: str = "claim.not_given_back") -> list[str]:
    """Make a pass; return the names of the claims whose allocation it tried to clear, or of which another `event` is logged."""
    with capture_logs() as logs:
        before = asyncio.all_tasks()
        cycle.once()
        await ended(before)
    return sorted(line["claim"].split("/")[1] for line in logs if line["event"] == event)


async def ended(before: set[asyncio.Task[Any]]) -> None:
    """Wait until all tasks have ended but those that there were before."""
    await asyncio.gather(*(asyncio.all_tasks() - before))


def hoarded(*, gates: tuple[str, ...] = (), **spec: Json) -> tuple[ObservedCluster, Json]:
    """One device on one node, allocated for a pod that no scheduler takes, and another pod that waits for it."""
    world = fleet({"n1": ("h100", 1)})
    claim = world.allocate(world.claim("kept"), "n1", "gpu-0")
    world.pod("stuck", "kept", gates=gates, spec=spec)
    world.wait_for("waiting", request("gpu"))
    return world, claim
