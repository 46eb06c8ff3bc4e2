"""Rounds on one node: plays begin, the agent is killed in the middle, comes back, everything ends, the judge looks.

In: a node, its plays, blows from a common bag. Out: rows for the report and verdicts.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Final

from testbed.chaos import judge
from testbed.chaos.blows import Blow
from testbed.chaos.judge import LEAKED, Verdict
from testbed.chaos.node import Node
from testbed.chaos.objects import StuckError
from testbed.chaos.plays import Plays
from testbed.chaos.report import Kill, state

_LOOK: Final = 0.05
_LOOKS: Final = 3
_AGAIN: Final = 0.2
"""Probability that the agent is killed once more while it recovers."""
_REBOOT: Final = 0.06
_CUT: Final = 0.1
_TWO: Final = 0.1
"""Probability that a second agent works beside the first, as in a rolling update."""


class Rounds:
    """The storm on one node. `told(kill)` is called for every kill."""

    def __init__(self, node: Node, *, seed: str, patience: float, told: Callable[[Kill], None]) -> None:
        self.node = node
        self._plays = Plays(node)
        self._seed = seed
        self._patience = patience
        self._told = told
        self._number = 0
        self._usual = 0.6
        """Seconds that the plays of a round take, as of late."""
        self.verdicts: list[Verdict] = []

    async def begin(self) -> None:
        """Start the first agent, with a person's partition already there."""
        self._stranger()
        self.node.start()
        await self.node.learn_cards()

    async def one(self, blow: Blow, budget: Callable[[], bool]) -> bool:
        """Play one round; says whether the blow struck where it was meant to. `budget` grants each further kill."""
        self._number += 1
        random = Random(f"{self._seed}/{self._number}")  # noqa: S311 - a seed makes the run repeatable
        await self._plays.lead_to(blow.leads, random)
        if blow.kind == "step":
            await self.node.kill()
            self.node.start(kill_at=blow.where)
        elif blow.kind == "call":
            self.node.ground.kill_in(blow.where, after=blow.after)
        plays = self._plays.choose(random, blow.leads)
        doing = "+".join(name for name, _ in plays)
        second = None
        if blow.kind == "moment" and random.random() < _TWO:
            second = self.node.another(instance="second")
            doing += " under two agents"
        began = time.monotonic()
        tasks = [asyncio.create_task(play) for _, play in plays]
        cutting = asyncio.create_task(self._cut(random)) if random.random() < _CUT else None
        kills: list[Kill] = []

        def killed(kind: str, step: str) -> Kill:
            sight = self.node.sight()
            self.verdicts += judge.now(sight)
            kill = Kill(
                0,
                self.node.name,
                kind,
                step,
                doing,
                reboot=False,
                cut=cutting is not None,
                before=state(sight),
            )
            kills.append(kill)
            return kill

        struck = await self._strike(blow, random, tasks, killed)
        fell = time.monotonic()
        if random.random() < _REBOOT:
            if second is not None:
                await second.kill()
            self.node.reboot()
            kills[-1].reboot = True
            if random.random() < 0.5:
                self._stranger()
        while random.random() < _AGAIN and budget():
            self.node.start()
            pause = random.uniform(0, 0.5)
            await asyncio.sleep(pause)
            await self.node.kill()
            killed("moment", f"{pause * 1000:.0f} ms after a start")
        self.node.start()
        await self._end(tasks, cutting)
        after = await self._settle()
        if second is not None:
            await second.kill()
        await self.node.hang_up()
        self._usual = 0.8 * self._usual + 0.2 * min(time.monotonic() - began, 3.0)
        for kill in kills:
            kill.after, kill.seconds = after, round(time.monotonic() - fell, 3)
            kill.violations = "; ".join(f"{each.kind}: {each.text}" for each in self.verdicts)
            self._told(kill)
        return struck

    async def _strike(
        self,
        blow: Blow,
        random: Random,
        tasks: list["asyncio.Task[None]"],
        killed: Callable[[str, str], Kill],
    ) -> bool:
        agent = self.node.agent
        if agent is None:
            raise StuckError(f"{self.node.name}: no agent runs")
        if blow.kind == "moment":
            pause = random.uniform(0, self._usual)
            await asyncio.sleep(pause)
            await self.node.kill()
            killed("moment", f"{pause * 1000:.0f} ms")
            return True
        playing = asyncio.ensure_future(asyncio.wait(tasks)) if tasks else None
        dying = asyncio.ensure_future(asyncio.wait({agent.died}))
        await asyncio.wait({playing or dying, dying}, return_when=asyncio.FIRST_COMPLETED)
        # The last status is written after the play has ended.
        await asyncio.wait({agent.died}, timeout=0.3)
        self.node.ground.heal()
        struck = not agent.alive
        await self.node.kill()
        if struck:
            killed(blow.kind, str(blow))
        else:
            killed("moment", f"never came to {blow}")
        return struck

    async def _end(self, tasks: list["asyncio.Task[None]"], cutting: "asyncio.Task[None] | None") -> None:
        """Let everything that was begun come to its end."""
        try:
            if cutting is not None:
                await cutting
            await asyncio.gather(*tasks)
            await self.node.serves()
            await asyncio.gather(*self._plays.interrupted())
        except StuckError as error:
            self.verdicts.append(Verdict(LEAKED, str(error)))
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError, StuckError):
                    await task

    async def _settle(self) -> str:
        """Wait until nothing is wrong any more, and judge what stays wrong."""
        end = time.monotonic() + (self._patience if not self.verdicts else 1.0)
        looks = 0
        while True:
            objects = await self.node.partitions()
            sight = self.node.sight(objects)
            self._add(judge.now(sight))
            left = list(judge.at_rest(sight))
            looks = 0 if left else looks + 1
            # Once may be luck: the new agent has to have looked around, too.
            if looks == _LOOKS:
                break
            if time.monotonic() > end:
                self._add(left)
                break
            await asyncio.sleep(_LOOK)
        self._add(self._plays.accusations)
        self._plays.accusations = []
        return state(sight)

    async def _cut(self, random: Random) -> None:
        await asyncio.sleep(random.uniform(0, self._usual))
        self.node.wire.cut()
        await asyncio.sleep(random.uniform(0.1, 1.0))
        self.node.wire.mend()

    def _stranger(self) -> None:
        self.node.strangers.add(self.node.ground.stranger(self._plays.taken_by_hand))

    def _add(self, verdicts: Iterable[Verdict]) -> None:
        self.verdicts += [each for each in verdicts if each not in self.verdicts]
