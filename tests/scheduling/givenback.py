"""Passes in which the cycle tries to give allocations back; the server that would take them does not answer."""

import asyncio

from structlog.testing import capture_logs

from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet

UNUSED_TIMEOUT = 60.0


async def tried(cycle: Cycle) -> list[str]:
    """Make a pass; return the names of the claims whose allocation it tried to clear."""
    with capture_logs() as logs:
        cycle.once()
        await settled()
    return sorted(line["claim"].split("/")[1] for line in logs if line["event"] == "claim.not_given_back")


async def settled() -> None:
    """Wait until all writes have failed."""
    others = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=10)


def hoarded(*, gates: tuple[str, ...] = (), **spec: Json) -> tuple[ObservedCluster, Json]:
    """One device on one node, allocated for a pod that no scheduler takes, and another pod that waits for it."""
    world = fleet({"n1": ("h100", 1)})
    claim = world.allocate(world.claim("kept"), "n1", "gpu-0")
    world.pod("stuck", "kept", gates=gates, spec=spec)
    world.wait_for("waiting", request("gpu"))
    return world, claim
