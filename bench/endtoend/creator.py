"""Makes the pods of a run: all at once, or at a steady rate; and deletes those whose stay has ended.

In: a client, a workload, a timeline that is told what is sent. Out: pods.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeAlias, TypeVar

from apportion.cluster.kinds import PODS
from bench.endtoend.timeline import Timeline
from bench.endtoend.workload import Workload, pod
from testbed.api import Api
from testbed.beside import beside

T = TypeVar("T")
Leaving: TypeAlias = asyncio.PriorityQueue[tuple[float, str]]
"""When pods are to be deleted (`time.monotonic`), and their paths."""
_BURST = 64
"""Creations in flight where all pods are made at once."""
_DELETIONS = 16


async def create(api: Api, namespace: str, workload: Workload, timeline: Timeline) -> None:
    """Make all pods of the workload, and return when the last one is made. Raises ApiError.

    With a rate, a creation is sent when it is due, whether or not earlier ones were answered.
    """
    path = PODS.path(namespace=namespace)
    names = iter(list(workload.names()))

    async def one(name: str) -> None:
        timeline.send(name)
        await api.create(path, pod(name))

    async def work() -> None:
        for name in names:
            await one(name)

    async with asyncio.TaskGroup() as group:
        if not workload.rate:
            for _ in range(min(_BURST, workload.pods)):
                group.create_task(work())
            return
        async for name in due(names, workload.rate):
            group.create_task(one(name))


async def due(items: Iterable[T], rate: float) -> AsyncIterator[T]:
    """Yield so many items a second, each when it is due by the clock: a late one makes none of the next late."""
    began = time.monotonic()
    for number, item in enumerate(items):
        await asyncio.sleep(max(began + number / rate - time.monotonic(), 0.0))
        yield item


async def delete_after(api: Api, namespace: str, stay: float, bound: asyncio.Queue[str]) -> None:
    """Delete each pod that comes out of the queue, `stay` seconds later, until cancelled."""
    leaving: Leaving = asyncio.PriorityQueue()
    async with beside(delete_due(api, leaving)):
        while True:
            name = await bound.get()
            leaving.put_nowait((time.monotonic() + stay, PODS.path(name, namespace=namespace)))


async def delete_due(api: Api, leaving: Leaving) -> None:
    """Delete the pods that come out of the queue when they are due, until cancelled. There is no kubelet: without grace."""

    async def work() -> None:
        while True:
            due, path = await leaving.get()
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            await api.delete(path, grace=0)

    async with asyncio.TaskGroup() as group:
        for _ in range(_DELETIONS):
            group.create_task(work())
