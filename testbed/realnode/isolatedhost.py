"""An isolated host for one node: mounts, process ids and a control group of its own. kubelet and containerd run inside.

In: a folder. Out: a running process 1, and command lines that run beside it. Killing process 1 ends everything inside.
"""

import asyncio
import signal
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import psutil

from testbed.errors import ComponentDiedError, NotReadyInTimeError
from testbed.process import Identity, Process
from testbed.realnode import cgroups
from testbed.realnode.nodeinit import LIBRARY, READY

_NODEINIT = Path(__file__).with_name("nodeinit.py")
_NSENTER = Path(__file__).with_name("nsenter.py")
_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.02


class IsolatedHost:
    """The host of one node, its files below `folder`; `group` names its control group."""

    def __init__(self, folder: Path, group: str) -> None:
        self.folder = folder
        self.group = group
        self._process: Process | None = None
        self.init: Identity | None = None
        """Process 1, as the host sees it."""

    @property
    def run(self) -> Path:
        """The node's /run, empty after a reboot."""
        return self.folder / "run"

    def library(self, name: str) -> Path:
        """Return where the node's /var/lib/<name> is."""
        return self.folder / "lib" / name

    @property
    def pod_logs(self) -> Path:
        """The node's /var/log/pods."""
        return self.folder / "log" / "pods"

    async def start(self) -> None:
        """Boot: a new boot id, an empty /run, no process. Raises OSError, ComponentDiedError or NotReadyInTimeError."""
        for folder in (self.run, self.folder / "log", *(self.library(name) for name in LIBRARY)):
            folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / READY).unlink(missing_ok=True)
        cgroups.make(self.group)
        log = self.folder / "host.log"
        self._process = Process.start("node", [sys.executable, "-I", "-S", _NODEINIT, str(self.folder)], log)
        end = time.monotonic() + _PATIENCE_SECONDS
        while not (self.folder / READY).exists():
            if not self._process.running():
                raise ComponentDiedError("the node's process 1", self._process.code, log)
            if time.monotonic() > end:
                raise NotReadyInTimeError(f"the node's mounts are not there after {_PATIENCE_SECONDS:.0f} s")
            await asyncio.sleep(_LOOK_SECONDS)
        pid = int((self.folder / "init").read_text())
        self.init = Identity(pid, psutil.Process(pid).create_time())

    def command(self, *words: str | Path) -> list[str | Path]:
        """Return the command line that runs a program inside."""
        if self.init is None:
            raise RuntimeError("the node does not run")
        return [sys.executable, "-I", "-S", _NSENTER, str(self.init.pid), *words]

    async def stop(self) -> None:
        """Cut the power: when this returns, every process inside has ended, and mounts and control groups are removed."""
        if self.init is not None:
            await end(self.init)
            self.init = None
        if self._process is not None:
            await self._process.stop(1.0)
            self._process = None
        await cgroups.remove(self.group)


async def end(init: Identity) -> None:
    """Kill a node's process 1; the kernel kills everything else inside before it lets it go."""
    if not init.running():
        return
    with suppress(ProcessLookupError):
        psutil.Process(init.pid).send_signal(signal.SIGKILL)
    until = time.monotonic() + _PATIENCE_SECONDS
    while init.running() and time.monotonic() < until:  # noqa: ASYNC110 - not our child: no event
        await asyncio.sleep(_LOOK_SECONDS)
