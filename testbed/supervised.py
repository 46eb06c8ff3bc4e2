"""A program that is started again when it ends, as by a Deployment or DaemonSet."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from testbed.process import Process

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_LOOK_SECONDS = 0.05
_HEALTHY_SECONDS = 10.0


class Supervised:
    """Keeps one program running until it is stopped. `starts` counts how often it was started."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.starts = 0
        self.crashes: Counter[str] = Counter()
        """How often runs were ended by which signal that was none of `kill` or `stop`."""
        self._command = command
        self._environment = environment
        self._process: Process | None = None
        self._is_killed = False
        """Whether the run under way was."""
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the run under way; None between two runs."""
        return self._process.pid if self._process is not None and self._process.running() else None

    def start(self) -> None:
        """Start it, and go on starting it. Does nothing when it is supervised already."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    def kill(self) -> None:
        """SIGKILL the run under way; the supervisor starts the next one."""
        self._is_killed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self, grace: float = 5.0) -> None:
        """End it, and do not start it again."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._process is not None:
            await self._process.stop(grace)

    async def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            self.starts += 1
            self._is_killed = False
            self._process = Process.start(self.name, self._command, self.log, environment=self._environment)
            while self._process.running():  # noqa: ASYNC110 - a child's end is no event that asyncio could await
                await asyncio.sleep(_LOOK_SECONDS)
            if (code := self._process.code or 0) < 0 and not self._is_killed:
                self.crashes[signal.Signals(-code).name] += 1
            healthy = time.monotonic() - began > _HEALTHY_SECONDS
            pause = _FIRST_PAUSE_SECONDS if healthy else min(pause * 2, _LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)
