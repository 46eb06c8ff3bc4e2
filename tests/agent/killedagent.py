"""An agent process that is killed at a step, for tests that start a new one and look at what is left."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc

from testbed.chaos.agentpool import AgentProcess
from tests.agent.crashingagent import PATHS
from tests.agent.simulatednode import SimulatedNode

T = TypeVar("T")


class KilledAgent:
    """An agent process that dies at a step, and the one that is started after it."""

    def __init__(self, node: SimulatedNode, step: str, options: Mapping[str, Any]) -> None:
        self._node = node
        self._step = step
        self._options = dict(options)
        self._process: AgentProcess | None = None
        self._pid = 0
        self.deaths = 0

    async def start(self) -> None:
        """Start the agent; only the first one is doomed."""
        fields = (
            *PATHS,
            "node",
            "backend",
            "health_interval",
            "held_interval",
            "prepare_timeout",
            "registration_patience",
            "health_port",
            "imex_channels",
        )
        values = {name: getattr(self._node.options, name) for name in fields}
        assert self._node.forks is not None, "the node was made without `make_node`"
        pool = await self._node.forks.pool()
        self._process = pool.start(
            options={name: value for name, value in values.items() if value is not None} | self._options,
            kill_at=self._step if self.deaths == 0 else "never",
            environment=dict(os.environ),
            log=self._node.folder / "agent.log",
        )
        self._pid = await self._process.started

    async def insist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something as a patient partner would: when the agent dies under it, start a new one and do it again."""
        async with asyncio.timeout(60):
            while True:
                doing = asyncio.ensure_future(act())
                dying = asyncio.ensure_future(self.ended())
                await asyncio.wait({doing, dying}, return_when=asyncio.FIRST_COMPLETED)
                if doing.done() and doing.exception() is None:
                    dying.cancel()
                    return doing.result()
                doing.cancel()
                if doing.done() and not isinstance(doing.exception(), grpc.aio.AioRpcError):
                    dying.cancel()
                    await doing
                if await asyncio.wait({dying}, timeout=0.05) and not self._running().alive:
                    assert await self.ended() == -9, (self._node.folder / "agent.log").read_text()
                    self.deaths += 1
                    await self.start()
                else:
                    dying.cancel()

    def tell_to_end(self) -> None:
        """Send SIGTERM, as kubelet does first."""
        os.kill(self._pid, signal.SIGTERM)

    async def ended(self) -> int:
        """Wait until the agent has ended by itself, and return its status."""
        return await asyncio.shield(self._running().exited)

    async def stop(self) -> None:
        """End the agent that is left."""
        await self._running().kill()

    def _running(self) -> AgentProcess:
        assert self._process is not None
        return self._process


@asynccontextmanager
async def killed_agent(node: SimulatedNode, step: str, **options: Any) -> AsyncIterator[KilledAgent]:
    """Run an agent that dies at a step; with options that are not the node's, as numbers and texts."""
    agent = KilledAgent(node, step, options)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


def journal_steps(node: SimulatedNode) -> tuple[list[str], list[str]]:
    """Return the steps of partitions and claims that the journal still knows."""
    with sqlite3.connect(node.folder / "state" / "journal.db") as db:
        partitions = [row[0] for row in db.execute("SELECT step FROM partitions")]
        claims = [row[0] for row in db.execute("SELECT step FROM claims")]
    db.close()
    return partitions, claims
