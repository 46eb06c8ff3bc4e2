"""Groups that need more than half of the devices arrive at random, and none waits for another for ever.

In: a number of groups, a seed. Out: how many were served and how long they waited. A group that was let go has its turn for a
moment, and is deleted.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.gangs.world import PodsOf, claim, cluster_of_devices, gated_namespace, pod, show_nobody
from testbed.api import Json
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.reflector import Reflector

NODES, DEVICES = 2, 4
_AT_ONCE: Final = 12
"""Groups that are there at the same time."""


@dataclass(frozen=True, slots=True)
class Gang:
    """One group: pods with so many devices each."""

    name: str
    counts: tuple[int, ...]

    @property
    def fits(self) -> bool:
        """Whether it would be served if it were alone."""
        return self.counts in _PLACEABLE

    @property
    def members(self) -> list[tuple[str, int]]:
        """Its pods, each with its devices."""
        return [(f"{self.name}-{number}", count) for number, count in enumerate(self.counts)]


_PLACEABLE = frozenset({(3, 3), (4, 3), (4, 4), (3, 2), (2, 2), (1, 1), (2, 2, 2)})
"""Devices of each pod; most need more than half of the eight."""
_LARGER = frozenset({(4, 4, 4), (3, 3, 3)})
"""Groups that need a third node."""


@dataclass(slots=True)
class Report:
    """What became of all groups."""

    groups: int
    fitting: int = 0
    served: int = 0
    seconds: float = 0.0
    """From the first group to the last one's end."""
    half_placed: list[str] = field(default_factory=list)
    """Groups of which a pod was let go while another one had no devices."""
    waited: list[float] = field(default_factory=list)
    """Seconds from the last pod of a group until all were let go."""

    @property
    def ended_well(self) -> bool:
        """Whether all that fit alone were served, and none in part."""
        return self.served == self.fitting and not self.half_placed


def gangs_of(number: int, seed: int) -> list[Gang]:
    """Return so many random groups; one of twenty can never be served."""
    draw = random.Random(seed)
    placeable, larger = sorted(_PLACEABLE), sorted(_LARGER)
    return [
        Gang(f"g{index}", draw.choice(larger if index % 20 == 10 else placeable)) for index in range(number)
    ]


class Run:
    """Groups on one control plane."""

    def __init__(self, cluster: ControlPlane, where: PodsOf, report: Report, seed: int) -> None:
        self._api = cluster.api
        self._where = where
        self._report = report
        self._draw = random.Random(seed)
        self._let_go: dict[str, asyncio.Future[None]] = {}
        """By pod: done when it has been seen without a gate."""

    async def all(self, gangs: Sequence[Gang], within: float) -> None:
        """Let all groups come and go; groups that cannot be served stay until the end."""
        pods = Reflector(self._api, self._where.pods(), self._observe)
        slots = asyncio.Semaphore(_AT_ONCE)
        async with beside(pods.run()):
            await pods.listed.wait()
            try:
                async with asyncio.timeout(within), asyncio.TaskGroup() as tasks:
                    for gang in gangs:
                        await slots.acquire()
                        await asyncio.sleep(self._draw.random() * 0.02)
                        tasks.create_task(self._come_and_go(gang, slots))
            except TimeoutError:
                pass  # the report says how many were served
            for gang in gangs:
                if not gang.fits and any(self._future(name).done() for name, _ in gang.members):
                    self._report.half_placed.append(gang.name)

    async def _come_and_go(self, gang: Gang, slots: asyncio.Semaphore) -> None:
        members = gang.members
        self._draw.shuffle(members)
        for name, count in members:
            await self._api.create(self._where.claims(), claim(name, count))
            await self._api.create(self._where.pods(), pod(name, gang.name, len(members)))
        if not gang.fits:
            slots.release()
            return
        whole = time.monotonic()
        waiting = [self._future(name) for name, _ in members]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # A pod was seen without a gate, and what is read after that is no older.
        claims = [await self._api.get(self._where.claims(name)) for name, _ in members]
        if not all("allocation" in each.get("status", {}) for each in claims):
            self._report.half_placed.append(gang.name)
        await asyncio.wait(waiting)
        self._report.waited.append(time.monotonic() - whole)
        self._report.served += 1
        await asyncio.sleep(self._draw.random() * 0.1)
        for name, _ in members:
            await self._api.delete(self._where.pods(name), grace=0)
            await self._api.delete(self._where.claims(name))
        slots.release()

    def _observe(self, _uid: str, item: Json | None) -> None:
        if item is not None and not item["spec"].get("schedulingGates"):
            future = self._future(item["metadata"]["name"])
            if not future.done():
                future.set_result(None)

    def _future(self, pod: str) -> "asyncio.Future[None]":
        return self._let_go.setdefault(pod, asyncio.get_running_loop().create_future())


async def measure(groups: int, seed: int, within: float, binaries: Binaries) -> Report:
    """Let so many groups arrive; returns what became of them after so many seconds at most."""
    gangs = gangs_of(groups, seed)
    report = Report(groups, fitting=sum(each.fits for each in gangs))
    async with cluster_of_devices(binaries, NODES, DEVICES) as (cluster, _):
        await show_nobody(cluster)
        where = await gated_namespace(cluster, "gangs")
        began = time.monotonic()
        await Run(cluster, where, report, seed).all(gangs, within)
        report.seconds = time.monotonic() - began
    return report
