"""Pods that begin while the agent makes up for what it missed before it was connected to the container runtime."""

import asyncio
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.eventually import eventually
from testbed.hostnetwork import seen
from tests.agent.rdma.networknode import NetworkNode


@contextmanager
def locked(rail: NetworkNode, card: str) -> Iterator[None]:
    """Hold a card's lock, as another agent of a rolling update does."""
    path = rail.node.options.state_dir / "locks" / f"{card}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


async def test_a_pod_that_begins_while_other_interfaces_are_looked_at_keeps_its_own(
    rail: NetworkNode,
) -> None:
    """The runtime did not name it when the agent connected, because it was not there yet."""
    other = rail.beside()
    async with rail.node.agent():
        await rail.heard()
        blocking = await other.prepared(name="other")
        claim = await rail.prepared()
        with locked(rail, "nic-mlx5-1"):
            await rail.reconnected()
            namespace = await rail.begun()
        # What waited for the lock is done before this: acts on one card take turns.
        assert await other.unprepare(blocking) == ""
        for _ in range(10):
            await asyncio.sleep(0.1)
            assert rail.shown(claim) is not None
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]


async def test_a_pod_whose_sandbox_the_runtime_did_not_name_has_its_interface_before_its_container_starts(
    rail: NetworkNode,
) -> None:
    """The runtime (containerd) keeps a sandbox only after its plugins have heard of it: one that connects in between never does."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.prepared()
        namespace = await rail.begun()
        sandbox = rail.runtime.sandboxes.pop(rail.pod)
        await rail.reconnected()

        async def on_host() -> bool:
            return rail.network.on_host() != {}

        await eventually(on_host, bool)
        rail.runtime.sandboxes[rail.pod] = sandbox
        assert await rail.create(claim, rail.pod) == ""
        assert rail.shown(claim) is not None
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]
