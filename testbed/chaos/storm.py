"""The storm: several nodes, each killed again and again, until the kills are spent.

In: a control plane with apportion's manifests, how many kills, a seed. Out: an outcome: kills and broken promises.
"""

import asyncio
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed.chaos.blows import MOMENT, Blow, boundaries
from testbed.chaos.brood import Brood
from testbed.chaos.ground import Ground, NvmlGround, SimulatedGround
from testbed.chaos.judge import KINDS, Verdict
from testbed.chaos.report import Kill, Report
from testbed.chaos.round import Rounds
from testbed.chaos.staging import loader, staged
from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError

_TRIES: Final = 4
"""Rounds after which a boundary that was never reached is reported."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do."""

    kills: int
    """At random moments; those at boundaries come on top."""
    seed: int
    backend: str = "nvml"
    nodes: int = 2
    boundaries: bool = True
    """Whether to kill at every boundary first."""
    lose: str = ""
    """A journal write that never happens, so that the run must fail."""
    patience: float = 20.0
    """Seconds until what is left over counts as left over."""
    report: Path | None = None


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    kills: int = 0
    struck: list[str] = field(default_factory=list)
    """Boundaries at which an agent was killed."""
    missed: list[str] = field(default_factory=list)
    """Boundaries that no round came to."""
    reboots: int = 0
    cuts: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0
    words: str = ""
    """The end of the log of an agent under which a promise was broken."""

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not self.verdicts and not self.missed

    def line(self) -> str:
        """Return the last line of a run."""
        counted = Counter(each.kind for each in self.verdicts)
        numbers = " ".join(f"{kind}={counted[kind]}" for kind in KINDS)
        return f"kills={self.kills} {numbers} seconds={self.seconds:.0f}"


class Storm:
    """One run. `told(outcome)` is called after every kill."""

    def __init__(
        self, cluster: ControlPlane, plan: Plan, *, told: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._told = told
        self._bag: deque[Blow] = deque(boundaries(plan.backend) if plan.boundaries else ())
        self._tries: Counter[Blow] = Counter()
        self._granted = 0
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        """Run it to the end, or to the first broken promise of each node."""
        began = time.monotonic()
        # A short path: unix sockets lie below it.
        folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        try:
            with Report(self._plan.report) as self._report:
                async with AsyncExitStack() as stack:
                    grounds = [self._ground(folder / str(n)) for n in range(self._plan.nodes)]
                    brood = await stack.enter_async_context(Brood(loader(grounds)))
                    async with asyncio.TaskGroup() as nodes:
                        running = [
                            nodes.create_task(self._node(folder / str(n), ground, brood))
                            for n, ground in enumerate(grounds)
                        ]
                    if any(task.cancelled() for task in running):
                        raise TestbedError("a node of the storm was given up halfway")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.outcome.missed += [str(blow) for blow in self._bag]
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _ground(self, folder: Path) -> Ground:
        folder.mkdir()
        grounds: dict[str, Callable[[Path], Ground]] = {"nvml": NvmlGround, "simulated": SimulatedGround}
        return grounds[self._plan.backend](folder)

    async def _node(self, folder: Path, ground: Ground, brood: Brood) -> None:
        plan = self._plan
        async with staged(
            self._cluster, folder, ground, brood, lose=plan.lose, patience=3 * plan.patience
        ) as node:
            rounds = Rounds(node, seed=f"{plan.seed}/{folder.name}", patience=plan.patience, told=self._count)
            await rounds.begin()
            try:
                while not rounds.verdicts and (blow := self._next()) is not None:
                    self._struck(blow, struck=await rounds.one(blow, self._grant))
            finally:
                if rounds.verdicts:
                    self.outcome.words = node.last_words()
                self.outcome.verdicts += rounds.verdicts

    def _grant(self) -> bool:
        """Grant one more kill at a random moment, if any is left."""
        if self._granted >= self._plan.kills:
            return False
        self._granted += 1
        return True

    def _next(self) -> Blow | None:
        if self._bag:
            return self._bag.popleft()
        return MOMENT if self._grant() else None

    def _struck(self, blow: Blow, *, struck: bool) -> None:
        if blow.kind == "moment":
            return
        if struck:
            self.outcome.struck.append(str(blow))
            return
        self._tries[blow] += 1
        if self._tries[blow] < _TRIES * self._plan.nodes:
            self._bag.append(blow)
        else:
            self.outcome.missed.append(str(blow))

    def _count(self, kill: Kill) -> None:
        outcome = self.outcome
        if kill.kind == "moment" and not kill.step.startswith("never"):
            outcome.kills += 1
        outcome.reboots += kill.reboot
        outcome.cuts += kill.cut
        kill.number = outcome.kills + len(outcome.struck)
        self._report.add(kill)
        self._told(outcome)
