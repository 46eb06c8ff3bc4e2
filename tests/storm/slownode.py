"""An installation with one node whose containers take time to stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from testbed.binaries import Binaries
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.installation import Installation, SimulatedNode


@asynccontextmanager
async def slow_node(
    binaries: Binaries, *, cards: int, stop_seconds: float
) -> AsyncIterator[tuple[ControlPlane, Installation, Checker]]:
    """Run everything for one node whose containers take their time to stop."""
    node = SimulatedNode("n1", {"cards": [{"model": "H100-80GB", "count": cards}]})
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(cluster, [node], kubelet_options={"stop_seconds": stop_seconds}) as installation,
        Checker(installation) as checker,
    ):
        yield cluster, installation, checker
