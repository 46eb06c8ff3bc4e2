"""The brood: agents as processes that are born by the nursery and die by SIGKILL.

In: orders. Out: agents that can be killed and waited for.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Self

from testbed.errors import TestbedError
from testbed.installation import REPOSITORY


class Agent:
    """One agent process."""

    def __init__(self) -> None:
        self.born: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.died: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit code; -9 after a SIGKILL."""

    @property
    def alive(self) -> bool:
        """Whether no death was told yet."""
        return not self.died.done()

    async def kill(self) -> None:
        """End it with SIGKILL, wherever it is, and wait until it is gone."""
        pid = await self.born
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self.died


class Brood:
    """`async with Brood(environment) as brood:` runs a nursery; all agents end with it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._ids = count()
        self._unborn: dict[int, Agent] = {}
        self._living: dict[int, Agent] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._open = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Start the nursery and wait until it has loaded everything."""
        path = os.pathsep.join(str(folder) for folder in (REPOSITORY / "operator", REPOSITORY))
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, REPOSITORY / "testbed" / "tether.py", str(os.getpid())),
            *(sys.executable, "-m", "testbed.chaos.nursery"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        )
        self._listening = asyncio.create_task(self._listen())
        opening = asyncio.create_task(self._open.wait())
        await asyncio.wait({opening, self._listening}, return_when=asyncio.FIRST_COMPLETED)
        if not self._open.is_set():
            opening.cancel()
            raise TestbedError("the nursery of the agents does not start; its own words are above")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the nursery, and with it every agent."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._listening is not None:
            await self._listening

    def bear(self, **order: Any) -> Agent:
        """Fork an agent: `arguments` of `apportion agent`, `environment`, `log`, `options`, `kill_at`, `lose`."""
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            raise TestbedError("the nursery of the agents is closed")
        number = next(self._ids)
        agent = self._unborn[number] = Agent()
        self._process.stdin.write(json.dumps({**order, "id": number}, default=str).encode() + b"\n")
        return agent

    async def _listen(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        async for line in self._process.stdout:
            told = json.loads(line)
            match told["event"]:
                case "open":
                    self._open.set()
                case "born":
                    agent = self._living[told["pid"]] = self._unborn.pop(told["id"])
                    agent.born.set_result(told["pid"])
                case "dead":
                    self._living.pop(told["pid"]).died.set_result(told["code"])
        for agent in (*self._unborn.values(), *self._living.values()):
            for waited in (agent.born, agent.died):
                if not waited.done():
                    waited.set_result(-signal.SIGKILL)
