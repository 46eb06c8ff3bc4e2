"""One program: started in its own process group, identified by id and start time.

In: a command line. Out: a running process that can be stopped, killed and, from another shell, adopted.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_LOOK_SECONDS = 0.02
_PDEATHSIG = Path(__file__).with_name("pdeathsig.py")
# Two programs never share an id and a start time; psutil computes the time from clock ticks (10 ms).
_SAME_START_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Identity:
    """Id and start time of a process; ids alone are reused."""

    pid: int
    started: float

    def running(self) -> bool:
        """Return whether this process still runs; a zombie does not."""
        try:
            process = psutil.Process(self.pid)
            return (
                abs(process.create_time() - self.started) < _SAME_START_SECONDS
                and process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return False


class Process:
    """A running program, started here (`start`) or by another shell (`adopt`)."""

    def __init__(
        self, name: str, identity: Identity, log: Path, child: subprocess.Popen[bytes] | None
    ) -> None:
        self.name = name
        self.identity = identity
        self.log = log
        self._child = child

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        detached: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Start a program in its own process group; its output is added to `log`.

        It dies with this process (more exactly: with the calling thread), whatever ends that, unless `detached`.
        """
        wrapper: list[str | Path] = []
        if not detached:
            wrapper = [sys.executable, "-I", "-S", _PDEATHSIG, str(os.getpid())]
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*wrapper, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C must reach this process first, so that the order of ending holds
                env=environment,
            )
        return cls(name, Identity(child.pid, psutil.Process(child.pid).create_time()), log, child)

    @classmethod
    def adopt(cls, name: str, identity: Identity, log: Path) -> Self:
        """Take over a program that another shell started."""
        return cls(name, identity, log, None)

    @property
    def pid(self) -> int:
        """The process id, which is also its process group's id."""
        return self.identity.pid

    @property
    def code(self) -> int | None:
        """The exit code of a program that was started here and has ended, else None."""
        return None if self._child is None else self._child.poll()

    def running(self) -> bool:
        """Say whether it still runs."""
        if self._child is not None:
            return self._child.poll() is None
        return self.identity.running()

    async def stop(self, grace: float) -> None:
        """SIGTERM, after `grace` seconds SIGKILL, each to the whole process group; returns when it is gone."""
        for word, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, grace + 5)):
            if not self.running():
                return
            with suppress(ProcessLookupError):
                os.killpg(self.pid, word)
            end = time.monotonic() + patience
            while self.running() and time.monotonic() < end:  # noqa: ASYNC110 - an adopted process sends no event
                await asyncio.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """SIGKILL at once, without waiting: for crash tests."""
        if self.running():
            os.killpg(self.pid, signal.SIGKILL)
