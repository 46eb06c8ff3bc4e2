"""One run: a tenant makes pods at a steady rate, alone at first, then while a crowd comes, then beside it.

In: a plan. Out: figures. Raises TestbedError if a device was allocated twice.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Final

from apportion.cluster.kinds import CLAIMS
from bench.crowd.crowd import Crowd
from bench.crowd.crowdplan import CrowdPlan
from bench.crowd.figures import Figures
from bench.crowd.use import Use
from bench.doubled import refuse_doubled
from bench.endtoend.cluster import Cluster, prepared
from bench.endtoend.creator import create, delete_after
from bench.endtoend.endtoendrun import warm_up
from bench.endtoend.requests import Counts, counted, since
from bench.endtoend.timeline import Timeline
from bench.endtoend.workload import Who
from bench.operatorprobe import OperatorProbe
from bench.reading import Reading
from bench.span import Span
from bench.usage import load, settled
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.errors import NotReadyInTimeError, TestbedError
from testbed.eventually import eventually

BEFORE: Final = 15
"""Seconds in which the steady pods come before the crowd does."""
_WARM: Final = 8
"""Pods that come and go before the run."""
_WARM_WITHIN: Final = 60.0
_MADE_WITHIN: Final = 1800.0
"""Seconds for which the last pod of the crowd is waited for."""
_LAST_WITHIN: Final = 30.0
"""Seconds for which the last steady pods are waited for."""

Shown = Callable[[str], None]
"""Receives what is being done."""


async def measure(plan: CrowdPlan, binaries: Binaries, show: Shown = lambda _: None) -> Figures:
    """Run on a control plane of its own.

    Raises TestbedError, and TimeoutError when the operator does not begin to act, the first pods are not bound, or the crowd's are not made in time.
    """
    show("starting")
    async with prepared(Who.OURS, plan.workload, binaries) as cluster:
        if cluster.operator is None or cluster.probe is None:
            raise TestbedError("the operator was not started")
        control_plane, workload = cluster.control_plane, plan.workload
        crowd = Crowd(control_plane.api, plan)
        show("warming up")
        await warm_up(cluster, replace(workload, pods=_WARM, rate=0, stay=0), _WARM_WITHIN)
        await crowd.prepare()
        namespace = await cluster.namespace(workload)
        timeline = Timeline(control_plane.api, namespace, workload.pods, time.monotonic)
        async with beside(timeline.lists.run()):
            await timeline.lists.listening()
            await settled(cluster.pids)
            loaded = load()
            use = Use(control_plane.api, plan.names())
            readings, served, requests = await _run(
                plan, cluster, cluster.probe, crowd, use, namespace, timeline, show
            )
            ended = time.monotonic()
        control_plane.check()
        claims, _ = await control_plane.api.items(CLAIMS.path())
        refuse_doubled(claims)
        before, making, during = (Span(timeline, begun, done, ended) for begun, done in pairwise(readings))
        return Figures(
            plan=plan,
            kubernetes=control_plane.version,
            before=before,
            making=making,
            during=during,
            waiting=sum("allocation" not in claim.get("status", {}) for claim in claims),
            served=served,
            gpus=use.mean,
            requests=requests,
            starts=cluster.operator.starts,
            load=(loaded, load()),
        )


async def _run(
    plan: CrowdPlan,
    cluster: Cluster,
    probe: OperatorProbe,
    crowd: Crowd,
    use: Use,
    namespace: str,
    timeline: Timeline,
    show: Shown,
) -> tuple[Sequence[Reading], int, Counts]:
    """Return the counters at the beginning, when the crowd comes, when all of it is there and at the end; of the last part the crowd's pods that were bound, and the requests."""
    api, workload = cluster.control_plane.api, plan.workload
    leaving: asyncio.Queue[str] = asyncio.Queue()
    timeline.on_bound = leaving.put_nowait
    readings, made = [await Reading.of(cluster, probe)], asyncio.Event()
    deleting = delete_after(api, namespace, workload.stay, leaving)
    async with beside(deleting), beside(create(api, namespace, workload, timeline)):
        show("alone")
        await asyncio.sleep(BEFORE)
        readings.append(await Reading.of(cluster, probe))
        show("making")
        async with beside(crowd.run(made)):
            async with asyncio.timeout(_MADE_WITHIN):
                await made.wait()
            readings.append(await Reading.of(cluster, probe))
            then, requests = crowd.served, await asyncio.to_thread(counted, cluster.control_plane)
            show("beside")
            async with beside(use.run()):
                await asyncio.sleep(plan.seconds)
            readings.append(await Reading.of(cluster, probe))
            served = crowd.served - then
            after = await asyncio.to_thread(counted, cluster.control_plane)
            ours = {name for name, at in timeline.created.items() if at < readings[-1].at}

            async def unbound() -> set[str]:
                return ours - timeline.bound.keys()

            with suppress(NotReadyInTimeError):
                await eventually(unbound, lambda left: not left, within=_LAST_WITHIN)
    return readings, served, since(requests, after)
