"""Agents as processes, forked by the fork server (`forkserver.py`).

In: the arguments of each agent. Out: processes that can be killed and waited for.
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


class AgentProcess:
    """One agent process."""

    def __init__(self) -> None:
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit code; -9 after a SIGKILL."""

    @property
    def alive(self) -> bool:
        """Whether its exit was not reported yet."""
        return not self.exited.done()

    async def kill(self) -> None:
        """End it with SIGKILL and wait until it is gone."""
        pid = await self.started
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self.exited


class AgentPool:
    """`async with AgentPool(environment) as pool:` runs a fork server; all agents end with it. `module`: whose `run` is an agent."""

    def __init__(self, environment: Mapping[str, str], module: str = "testbed.chaos.forkedagent") -> None:
        self._environment = dict(environment)
        self._module = module
        self._ids = count()
        self._starting: dict[int, AgentProcess] = {}
        self._running: dict[int, AgentProcess] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Start the fork server and wait until it has loaded everything."""
        path = os.pathsep.join(str(folder) for folder in (REPOSITORY / "operator", REPOSITORY))
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, REPOSITORY / "testbed" / "pdeathsig.py", str(os.getpid())),
            *(sys.executable, "-m", "testbed.chaos.forkserver", self._module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        )
        self._listening = asyncio.create_task(self._listen())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, self._listening}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.is_set():
            ready.cancel()
            raise TestbedError("the fork server of the agents does not start; its output is above")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the fork server, and with it every agent."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._listening is not None:
            await self._listening

    def start(self, **request: Any) -> AgentProcess:
        """Fork an agent that writes to `log`; the other keys are those of the module's `run`."""
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            raise TestbedError("the fork server of the agents is closed")
        number = next(self._ids)
        agent = self._starting[number] = AgentProcess()
        self._process.stdin.write(json.dumps({**request, "id": number}, default=str).encode() + b"\n")
        return agent

    async def _listen(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        async for line in self._process.stdout:
            reported = json.loads(line)
            match reported["event"]:
                case "ready":
                    self._ready.set()
                case "started":
                    agent = self._running[reported["pid"]] = self._starting.pop(reported["id"])
                    agent.started.set_result(reported["pid"])
                case "exited":
                    self._running.pop(reported["pid"]).exited.set_result(reported["code"])
        for agent in (*self._starting.values(), *self._running.values()):
            for waited in (agent.started, agent.exited):
                if not waited.done():
                    waited.set_result(-signal.SIGKILL)
