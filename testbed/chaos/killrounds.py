"""Rounds on one node: scenarios start, the agent is killed and started again, the scenarios end, invariants are checked.

In: a node, one kill point per round. Out: rows for the report and violations.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Final

from testbed.chaos import invariants
from testbed.chaos.agentpool import AgentProcess
from testbed.chaos.faults import RoundFaults
from testbed.chaos.invariants import LEAKED, Violation
from testbed.chaos.killpoints import KillPoint
from testbed.chaos.node import ChaosNode
from testbed.chaos.objects import StuckError
from testbed.chaos.report import Kill, summary
from testbed.chaos.scenarios import Scenarios

_POLL_SECONDS: Final = 0.05
_CHECKS: Final = 3
_P_SECOND_KILL: Final = 0.2
"""Probability that the agent is killed once more while it recovers."""
_P_REBOOT: Final = 0.06
_P_OUTAGE: Final = 0.1
_P_REORDER: Final = 0.5
"""Probability that cards come up in another order after a reboot."""
_P_SECOND_AGENT: Final = 0.1
"""Probability that a second agent runs next to the first, as in a rolling update."""


class KillRounds:
    """The rounds of one node. `on_kill(kill)` is called after the round, once for each of its kills."""

    def __init__(
        self, node: ChaosNode, *, seed: str, patience: float, on_kill: Callable[[Kill], None]
    ) -> None:
        self.node = node
        self._scenarios = Scenarios(node)
        self._faults = RoundFaults(node)
        self._seed = seed
        self._patience = patience
        self._on_kill = on_kill
        self._number = 0
        self._average_seconds = 0.6
        """Moving average of a round's duration, in seconds."""
        self.violations: list[Violation] = []

    async def start(self) -> None:
        """Start the first agent; a foreign partition exists before it."""
        self._create_foreign()
        self.node.start()
        await self.node.wait_published()

    async def run(self, point: KillPoint, budget: Callable[[], bool]) -> bool:
        """Run one round; returns whether the agent was killed at the point. `budget` grants each further kill."""
        self._number += 1
        random = Random(f"{self._seed}/{self._number}")  # noqa: S311 - a seed makes the run repeatable
        await self._scenarios.prepare_for(point.scenario, random)
        if point.kind == "step":
            await self.node.kill()
            self.node.start(kill_at=point.name)
        elif point.kind == "call":
            self.node.hardware.kill_in_call(point.name, after=point.after)
        scenarios = self._scenarios.choose(random, point.scenario)
        doing = "+".join(name for name, _ in scenarios)
        second = None
        if point.kind == "moment" and random.random() < _P_SECOND_AGENT:
            second = self.node.start_second(instance="second")
            doing += " under two agents"
        if point.kind == "moment":
            doing += await self._faults.begin(random)
        began = time.monotonic()
        tasks = [asyncio.create_task(scenario) for _, scenario in scenarios]
        outage = asyncio.create_task(self._cut_connection(random)) if random.random() < _P_OUTAGE else None
        kills: list[Kill] = []

        def killed(kind: str, step: str) -> Kill:
            observation = self.node.observe()
            self.violations += invariants.always(observation)
            kill = Kill(
                0,
                self.node.name,
                kind,
                step,
                doing,
                reboot=False,
                cut=outage is not None,
                before=summary(observation),
            )
            kills.append(kill)
            return kill

        hit = await self._kill_at(point, random, tasks, killed)
        killed_at = time.monotonic()
        if random.random() < _P_REBOOT:
            await self._reboot(random, second)
            kills[-1].reboot = True
        kills[-1].doing += self._faults.change(random)
        while random.random() < _P_SECOND_KILL and budget():
            self.node.start()
            pause = random.uniform(0, 0.5)
            await asyncio.sleep(pause)
            await self.node.kill()
            killed("moment", f"{pause * 1000:.0f} ms after a start")
        await self._faults.end()
        self.node.start()
        await self._finish(tasks, outage)
        after = await self._settle()
        if second is not None:
            await second.kill()
        await self.node.close_connections()
        self._average_seconds = 0.8 * self._average_seconds + 0.2 * min(time.monotonic() - began, 3.0)
        for kill in kills:
            kill.after, kill.seconds = after, round(time.monotonic() - killed_at, 3)
            kill.violations = "; ".join(f"{each.kind}: {each.text}" for each in self.violations)
            self._on_kill(kill)
        return hit

    async def _reboot(self, random: Random, second: AgentProcess | None) -> None:
        """Reboot the node; the driver may list its cards in another order, and somebody may cut a partition before the agent comes."""
        if second is not None:
            await second.kill()
        self.node.reboot()
        if random.random() < _P_REORDER:
            self.node.hardware.reorder()
        if random.random() < 0.5:
            self._create_foreign()

    async def _kill_at(
        self,
        point: KillPoint,
        random: Random,
        tasks: list["asyncio.Task[None]"],
        killed: Callable[[str, str], Kill],
    ) -> bool:
        agent = self.node.agent
        if agent is None:
            raise StuckError(f"{self.node.name}: no agent runs")
        if point.kind == "moment":
            pause = random.uniform(0, self._average_seconds)
            await asyncio.sleep(pause)
            await self.node.kill()
            killed("moment", f"{pause * 1000:.0f} ms")
            return True
        if tasks:  # without one nothing would bring the agent to the step
            running = asyncio.ensure_future(asyncio.wait(tasks))
            exit_ = asyncio.ensure_future(asyncio.wait({agent.exited}))
            await asyncio.wait({running, exit_}, return_when=asyncio.FIRST_COMPLETED)
        # The last status is written after the scenario has ended.
        await asyncio.wait({agent.exited}, timeout=0.3)
        self.node.hardware.clear_faults()
        hit = not agent.alive
        await self.node.kill()
        if hit:
            killed(point.kind, str(point))
        else:
            killed("moment", f"never came to {point}")
        return hit

    async def _finish(self, tasks: list["asyncio.Task[None]"], outage: "asyncio.Task[None] | None") -> None:
        """Wait for all scenarios; one that does not end is a leak."""
        try:
            if outage is not None:
                await outage
            await asyncio.gather(*tasks)
            await self.node.wait_serving()
            await asyncio.gather(*self._scenarios.interrupted())
        except StuckError as error:
            self.violations.append(Violation(LEAKED, str(error)))
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError, StuckError):
                    await task

    async def _settle(self) -> str:
        """Wait until the invariants at rest hold; what does not hold in time is recorded as a violation."""
        end = time.monotonic() + (self._patience if not self.violations else 1.0)
        good_checks = 0
        while True:
            objects = await self.node.partitions()
            observation = self.node.observe(objects)
            self._add(invariants.always(observation))
            left = list(invariants.at_rest(observation))
            good_checks = 0 if left else good_checks + 1
            # Several times in a row: the new agent may not have compared hardware and API yet.
            if good_checks == _CHECKS:
                break
            if time.monotonic() > end:
                self._add(left)
                break
            await asyncio.sleep(_POLL_SECONDS)
        self._add(self._scenarios.violations)
        self._scenarios.violations = []
        return summary(observation)

    async def _cut_connection(self, random: Random) -> None:
        await asyncio.sleep(random.uniform(0, self._average_seconds))
        self.node.relay.cut()
        await asyncio.sleep(random.uniform(0.1, 1.0))
        self.node.relay.restore()

    def _create_foreign(self) -> None:
        self.node.foreign.add(self.node.hardware.create_foreign(self._scenarios.used.foreign_placement))

    def _add(self, violations: Iterable[Violation]) -> None:
        self.violations += [each for each in violations if each not in self.violations]
