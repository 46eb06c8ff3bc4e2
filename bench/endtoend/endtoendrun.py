"""One run: pods are made, watched until all are bound or the limit is over, and what that took is read.

In: the allocator (`Who`), a workload. Out: figures.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from apportion.cluster.kinds import CLAIMS, PODS
from bench.endtoend.cluster import Cluster, prepared
from bench.endtoend.creator import create, delete_after
from bench.endtoend.figures import Figures
from bench.endtoend.requests import counted, since
from bench.endtoend.timeline import Timeline
from bench.endtoend.workload import Who, Workload
from bench.usage import Usage, load, own_usage, settled, usages
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.eventually import eventually

_BENCH = "bench"
"""This process: it makes the pods, watches them, and answers Partitions."""
_LOOK_SECONDS = 0.2

Shown = Callable[[str, int], None]
"""Receives what is being done, and how many pods are bound."""


async def measure(
    who: Who,
    workload: Workload,
    binaries: Binaries,
    *,
    limit: float,
    warm: int = 0,
    show: Shown = lambda _text, _bound: None,
) -> Figures:
    """Run once on a control plane of its own. A run ends `limit` seconds after the first pod at the latest.

    `warm` pods come and go before it. Raises TestbedError, and TimeoutError when the operator does not begin to act or the first pods
    are not bound within the limit.
    """
    show("starting", 0)
    async with prepared(who, workload, binaries) as cluster:
        control_plane = cluster.control_plane
        if warm:
            show("warming up", 0)
            await warm_up(cluster, replace(workload, pods=warm, rate=0, stay=0), limit)
        namespace = await cluster.namespace(workload)
        timeline = Timeline(control_plane.api, namespace, workload.pods, time.monotonic)
        async with beside(timeline.lists.run()):
            await timeline.lists.listening()
            await settled(cluster.pids)
            before, requests = load(), await asyncio.to_thread(counted, control_plane)
            then = _usages(cluster)
            await _run(cluster, namespace, workload, timeline, limit, show)
            now = _usages(cluster)
        control_plane.check()
        return Figures(
            who=who,
            workload=workload,
            kubernetes=control_plane.version,
            slices=cluster.slices,
            timeline=timeline,
            cpu={name: now[name].cpu - then[name].cpu for name in now},
            memory=now,
            requests=since(requests, await asyncio.to_thread(counted, control_plane)),
            starts=cluster.operator.starts if cluster.operator is not None else 0,
            load=(before, load()),
        )


def _usages(cluster: Cluster) -> Mapping[str, Usage]:
    return {**usages(cluster.pids), _BENCH: own_usage()}


async def warm_up(cluster: Cluster, workload: Workload, limit: float) -> None:
    """Have pods bound, delete them, and wait until their claims are gone. Raises TimeoutError."""
    api, namespace = cluster.control_plane.api, await cluster.namespace(workload)
    timeline = Timeline(api, namespace, workload.pods, time.monotonic)
    async with beside(timeline.lists.run()), asyncio.timeout(limit):
        await timeline.lists.listening()
        await create(api, namespace, workload, timeline)
        await timeline.all_bound.wait()
    await api.delete_all(PODS.path(namespace=namespace), gracePeriodSeconds="0")

    async def claims() -> int:
        found, _ = await api.items(CLAIMS.path(namespace=namespace))
        return len(found)

    await eventually(claims, lambda left: not left, within=limit)


async def _run(
    cluster: Cluster, namespace: str, workload: Workload, timeline: Timeline, limit: float, show: Shown
) -> None:
    api = cluster.control_plane.api

    async def follow() -> None:
        while not timeline.all_bound.is_set():
            show("pods", len(timeline.bound))
            await asyncio.sleep(_LOOK_SECONDS)

    leaving: asyncio.Queue[str] = asyncio.Queue()
    if workload.stay:
        timeline.on_bound = leaving.put_nowait
    async with beside(follow()), beside(delete_after(api, namespace, workload.stay, leaving)):
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await create(api, namespace, workload, timeline)
                await timeline.all_bound.wait()
    show("pods", len(timeline.bound))
