"""A chaos run: agents of several nodes are killed until the wanted number of kills is reached.

In: a control plane with apportion's manifests, how many kills, a seed. Out: a result with kills and violations.
"""

import asyncio
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from testbed.chaos.agentpool import AgentPool
from testbed.chaos.fakehardware import FakeHardware
from testbed.chaos.invariants import KINDS, Violation
from testbed.chaos.killpoints import RANDOM_MOMENT, KillPoint, boundaries
from testbed.chaos.killrounds import KillRounds
from testbed.chaos.nodesetup import chaos_node, has_rail, loader_environment
from testbed.chaos.nvmlhardware import NvmlHardware
from testbed.chaos.report import Kill, Report
from testbed.chaos.simulatedhardware import SimulatedHardware
from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError

_TRIES: Final = 4
"""Rounds per node after which a boundary that was never reached counts as missed."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How many agents are killed, and on what."""

    kills: int
    """At random moments; those at boundaries come on top."""
    seed: int
    backend: str = "nvml"
    nodes: int = 2
    boundaries: bool = True
    """Whether to kill at every boundary first."""
    lose: str = ""
    """A journal write that is left out, so that the run must fail."""
    patience: float = 20.0
    """Seconds until something that is left over counts as leaked."""
    report: Path | None = None


@dataclass(slots=True)
class RunResult:
    """Kills and violations of a run."""

    kills: int = 0
    hit: list[str] = field(default_factory=list)
    """Boundaries at which an agent was killed."""
    missed: list[str] = field(default_factory=list)
    """Boundaries that no round reached."""
    reboots: int = 0
    cuts: int = 0
    violations: list[Violation] = field(default_factory=list)
    seconds: float = 0.0
    log_tail: str = ""
    """End of the log of an agent that broke an invariant."""

    @property
    def good(self) -> bool:
        """Whether no invariant was violated and every boundary reached."""
        return not self.violations and not self.missed

    def line(self) -> str:
        """Return the last line of a run."""
        counted = Counter(each.kind for each in self.violations)
        numbers = " ".join(f"{kind}={counted[kind]}" for kind in KINDS)
        return f"kills={self.kills} {numbers} seconds={self.seconds:.0f}"


class ChaosRun:
    """One run. `on_kill(result)` is called after every kill."""

    def __init__(
        self,
        cluster: ControlPlane,
        options: RunOptions,
        *,
        on_kill: Callable[[RunResult], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._on_kill = on_kill
        self._pending: deque[KillPoint] = deque(
            boundaries(options.backend, network=has_rail(options.backend)) if options.boundaries else ()
        )
        self._tries: Counter[KillPoint] = Counter()
        self._granted = 0
        self.result = RunResult()

    async def run(self) -> RunResult:
        """Run it to the end, or to the first violation of each node."""
        began = time.monotonic()
        # A short path: unix sockets lie below it.
        folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        try:
            with Report(self._options.report) as self._report:
                async with AsyncExitStack() as stack:
                    hardware = [self._hardware(folder / str(n)) for n in range(self._options.nodes)]
                    pool = await stack.enter_async_context(AgentPool(loader_environment(hardware)))
                    async with asyncio.TaskGroup() as nodes:
                        running = [
                            nodes.create_task(self._node(folder / str(n), each, pool))
                            for n, each in enumerate(hardware)
                        ]
                    if any(task.cancelled() for task in running):
                        raise TestbedError("a node's rounds were cancelled")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.result.missed += [str(point) for point in self._pending]
        self.result.seconds = time.monotonic() - began
        return self.result

    def _hardware(self, folder: Path) -> FakeHardware:
        folder.mkdir()
        kinds: dict[str, Callable[[Path], FakeHardware]] = {
            "nvml": partial(NvmlHardware, second_driver=True),
            "simulated": SimulatedHardware,
        }
        return kinds[self._options.backend](folder)

    async def _node(self, folder: Path, hardware: FakeHardware, pool: AgentPool) -> None:
        options = self._options
        async with chaos_node(
            self._cluster,
            folder,
            hardware,
            pool,
            lose=options.lose,
            patience=max(20.0, 3 * options.patience),
            network=True,
            daemons=True,
        ) as node:
            rounds = KillRounds(
                node, seed=f"{options.seed}/{folder.name}", patience=options.patience, on_kill=self._count
            )
            await rounds.start()
            try:
                while not rounds.violations and (point := self._next()) is not None:
                    self._note(point, hit=await rounds.run(point, self._grant))
            finally:
                if rounds.violations:
                    self.result.log_tail = node.log_tail()
                self.result.violations += rounds.violations

    def _grant(self) -> bool:
        """Grant one more kill at a random moment, if any is left."""
        if self._granted >= self._options.kills:
            return False
        self._granted += 1
        return True

    def _next(self) -> KillPoint | None:
        if self._pending:
            return self._pending.popleft()
        return RANDOM_MOMENT if self._grant() else None

    def _note(self, point: KillPoint, *, hit: bool) -> None:
        if point.kind == "moment":
            return
        if hit:
            self.result.hit.append(str(point))
            return
        self._tries[point] += 1
        if self._tries[point] < _TRIES * self._options.nodes:
            self._pending.append(point)
        else:
            self.result.missed.append(str(point))

    def _count(self, kill: Kill) -> None:
        result = self.result
        if kill.kind == "moment" and not kill.step.startswith("never"):
            result.kills += 1
        result.reboots += kill.reboot
        result.cuts += kill.cut
        kill.number = result.kills + len(result.hit)
        self._report.add(kill)
        self._on_kill(result)
