"""An agent that is told to end before it serves: it ends, and leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from testbed.eventually import eventually
from testbed.kubeconfig import Access
from tests.agent.killedagent import KilledAgent, killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.simulatednode import SimulatedNode

GRACE = 30
"""Seconds that kubelet waits (manifests/base/agent.yaml); the process is killed then."""


async def _asked_to_end(agent: KilledAgent, node: SimulatedNode) -> None:
    agent.tell_to_end()
    async with asyncio.timeout(GRACE):
        assert await agent.ended() == 0
    assert [*node.folder.glob("r/*"), *node.folder.glob("p/*/*")] == []
    assert await node.slices() == []


async def test_a_driver_that_hangs_keeps_no_agent_from_ending(faked: MakeFake) -> None:
    """It was killed after its grace: an upgrade of agents waited for half a minute on each node."""
    async with faked() as (node, fake), killed_agent(node, "never") as agent:
        fake.hang("nvmlInitWithFlags")

        async def asked() -> int:
            return fake.calls().get("nvmlInitWithFlags", 0)

        await eventually(asked, bool)
        await _asked_to_end(agent, node)
        fake.drop_rules()
        await agent.start()
        await eventually(node.is_served)


@asynccontextmanager
async def _silent_server() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Give the address of a server that takes connections and answers none, and whether one has come."""
    come = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        come.set()
        # Nothing is answered before the client leaves.
        await reader.read()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1")
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", come
    finally:
        server.close()


async def test_an_api_server_that_does_not_answer_keeps_no_agent_from_ending(faked: MakeFake) -> None:
    """Nor does one that comes back meanwhile make it serve."""
    async with faked() as (node, _), _silent_server() as (address, come):
        options = node.options
        assert options.kubeconfig is not None
        file = node.folder / "silent"
        Access(address, options.kubeconfig).write(file)
        node.options = replace(options, kubeconfig=file)
        async with killed_agent(node, "never") as agent:
            await come.wait()
            await _asked_to_end(agent, node)
