"""The fork servers of a worker's agents: one for each search path of the dynamic loader, which a program reads when it starts.

In: the environment of this process. Out: a pool that forks agents with it.
"""

import os
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from testbed.chaos.agentpool import AgentPool

_LIBRARIES = "LD_LIBRARY_PATH"


class ForkServers:
    """`async with ForkServers() as servers:`; each is started when the first agent needs it, and all end with the block."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._pools: dict[str, AgentPool] = {}

    async def __aenter__(self) -> Self:
        """Start none yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all of them, and with them every agent."""
        await self._stack.aclose()

    async def pool(self) -> AgentPool:
        """Return the pool whose agents find the libraries that a program would find that is started now."""
        libraries = os.environ.get(_LIBRARIES, "")
        if libraries not in self._pools:
            pool = AgentPool({_LIBRARIES: libraries} if libraries else {}, module="tests.agent.crashingagent")
            self._pools[libraries] = await self._stack.enter_async_context(pool)
        return self._pools[libraries]
