"""One run: one tenant makes pods at a steady rate; another one's storm begins a little later.

In: a plan. Out: figures. Raises TestbedError if a device was allocated twice.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from apportion.cluster.kinds import CLAIMS
from bench.doubled import refuse_doubled
from bench.endtoend.cluster import Cluster, prepared
from bench.endtoend.creator import create, delete_after
from bench.endtoend.endtoendrun import warm_up
from bench.endtoend.requests import counted, since
from bench.endtoend.timeline import Timeline
from bench.endtoend.workload import Who
from bench.operatorprobe import OperatorProbe
from bench.poison.attacker import Attacker
from bench.poison.figures import Figures
from bench.poison.stormplan import BEFORE, StormPlan
from bench.reading import Reading
from bench.span import Span
from bench.usage import load, settled
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.errors import TestbedError

_WARM: Final = 8
"""Pods that come and go before the run."""
_WARM_WITHIN: Final = 60.0
_LAST_WITHIN: Final = 30.0
"""Seconds for which the last pods are waited for; the storm goes on."""
_LOOK_SECONDS: Final = 1.0
_OVERLAPS: Final = "apportion_overlaps"

Shown = Callable[[str, int], None]
"""Receives what is being done, and how many of the steady pods are bound."""


async def measure(plan: StormPlan, binaries: Binaries, show: Shown = lambda _text, _bound: None) -> Figures:
    """Run on a control plane of its own.

    Raises TestbedError, and TimeoutError when the operator does not begin to act or the first pods are not bound in time.
    """
    show("starting", 0)
    async with prepared(Who.OURS, plan.workload, binaries) as cluster:
        if cluster.operator is None or cluster.probe is None:
            raise TestbedError("the operator was not started")
        control_plane, workload = cluster.control_plane, plan.workload
        show("warming up", 0)
        await warm_up(cluster, replace(workload, pods=_WARM, rate=0, stay=0), _WARM_WITHIN)
        namespace, poisoned = await cluster.namespace(workload), await cluster.namespace(workload)
        run = _Run(plan, cluster, cluster.probe, show)
        attacking = Attacker.prepared(control_plane, poisoned, plan.storm, plan.poison_rate)
        timeline = Timeline(control_plane.api, namespace, workload.pods, time.monotonic)
        async with attacking as attacker, beside(timeline.lists.run()):
            await timeline.lists.listening()
            await settled(cluster.pids)
            loaded, requests = load(), await asyncio.to_thread(counted, control_plane)
            begun = await Reading.of(cluster, cluster.probe)
            storm, done = await run.run(namespace, timeline, attacker)
        control_plane.check()
        claims, _ = await control_plane.api.items(CLAIMS.path())
        refuse_doubled(claims)
        return Figures(
            plan=plan,
            kubernetes=control_plane.version,
            before=Span(timeline, begun, storm, done.at),
            during=Span(timeline, storm, done, done.at),
            made=attacker.made,
            not_made=attacker.not_made,
            attacks=attacker.attacks,
            refused=attacker.refused,
            requests=since(requests, await asyncio.to_thread(counted, control_plane)),
            overlaps=run.overlaps,
            starts=cluster.operator.starts,
            load=(loaded, load()),
        )


@dataclass
class _Run:
    """From the first pod to the last."""

    plan: StormPlan
    cluster: Cluster
    probe: OperatorProbe
    show: Shown
    overlaps: int = 0

    async def run(self, namespace: str, timeline: Timeline, attacker: Attacker) -> tuple[Reading, Reading]:
        """Return the readings when the storm begins and when everything has ended."""
        api, workload = self.cluster.control_plane.api, self.plan.workload
        begun: asyncio.Future[Reading] = asyncio.get_running_loop().create_future()

        async def attack() -> None:
            await asyncio.sleep(BEFORE)
            begun.set_result(await Reading.of(self.cluster, self.probe))
            await attacker.run()

        leaving: asyncio.Queue[str] = asyncio.Queue()
        timeline.on_bound = leaving.put_nowait
        deleting = delete_after(api, namespace, workload.stay, leaving)
        async with beside(self._follow(timeline, begun)), beside(deleting), beside(attack()):
            await create(api, namespace, workload, timeline)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WITHIN):
                    await timeline.all_bound.wait()
            return begun.result(), await Reading.of(self.cluster, self.probe)

    async def _follow(self, timeline: Timeline, begun: "asyncio.Future[Reading]") -> None:
        while True:
            self.show("storm" if begun.done() else "before", len(timeline.bound))
            metrics = await self.probe.metrics()
            self.overlaps = max(self.overlaps, int(metrics.get(_OVERLAPS, 0)))
            await asyncio.sleep(_LOOK_SECONDS)
