"""One large group is decided while another namespace makes single pods: how long these wait for it.

In: numbers of pods and nodes. Out: seconds from the creation of a single pod until its claim is seen with devices, without the group and while
it is decided, written and let go. Nodes that the group does not need have a device for each of the single pods; all want the same devices.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from bench.gangs.world import PodsOf, claim, cluster_of_devices, gated_namespace, pod
from bench.operatorprobe import OperatorProbe
from bench.scenariorun import percentile
from bench.usage import settled
from testbed.api import Api, Json
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.reflector import Reflector, Reflectors

DEVICES: Final = 8
"""Of a node."""
_PACE: Final = 0.1
"""Seconds between two single pods."""
_TOGETHER: Final = 16
_ACTING_SECONDS: Final = 120.0
_WITHIN: Final = 240.0
"""Seconds that the group may take."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that single pods waited."""

    pods: int
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Waits":
        """Return the percentiles of some waits."""
        ordered = sorted(seconds)
        return cls(
            len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), max(ordered, default=0.0)
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What single pods waited, and how long the group took."""

    pods: int
    nodes: int
    alone: Waits
    """Without the group."""
    beside: Waits
    """From the last pod of the group until all of its pods were let go."""
    allocated: float
    """Seconds from the group's last pod until all of its claims were seen with devices."""
    let_go: float
    """The same until none of its pods had a gate."""

    @property
    def longer(self) -> float:
        """How much longer the longest wait was than the median without the group, in seconds."""
        return self.beside.longest - self.alone.p50


class Followed:
    """When the claims of a namespace were first seen with devices, and its pods without a gate."""

    def __init__(self, api: Api, where: PodsOf) -> None:
        self.allocated: dict[str, float] = {}
        self.let_go: dict[str, float] = {}
        self.lists = Reflectors(
            Reflector(api, where.claims(), self._note(self.allocated, _has_devices)),
            Reflector(api, where.pods(), self._note(self.let_go, _has_no_gate)),
        )
        self._changed = asyncio.Event()

    async def until(self, reached: Callable[[], bool], within: float) -> None:
        """Wait until something holds of what was seen. Raises TimeoutError."""
        async with asyncio.timeout(within):
            while not reached():
                self._changed.clear()
                await self._changed.wait()

    def had_devices(self) -> dict[str, float]:
        """Return when the claims of pods without a gate were seen with devices, or these pods: they come by two watches, in any order."""
        return {name: min(self.allocated.get(name, at), at) for name, at in self.let_go.items()}

    def _note(
        self, times: dict[str, float], holds: Callable[[Json], bool]
    ) -> Callable[[str, Json | None], None]:
        def observe(_uid: str, item: Json | None) -> None:
            if item is not None and holds(item):
                times.setdefault(item["metadata"]["name"], time.monotonic())
                self._changed.set()

        return observe


def _has_devices(item: Json) -> bool:
    return "allocation" in item.get("status", {})


def _has_no_gate(item: Json) -> bool:
    return not item["spec"].get("schedulingGates")


class Singles:
    """Pods of another namespace, each with a claim for one device."""

    def __init__(self, api: Api, where: PodsOf) -> None:
        self._api = api
        self._where = where
        self.followed = Followed(api, where)
        self._created: dict[str, float] = {}

    async def come(self, most: int, until: asyncio.Event | None = None) -> Waits:
        """Make so many pods, one after the other, or one and more until something happened; returns what they waited."""
        names: list[str] = []
        while len(names) < most and not (names and until is not None and until.is_set()):
            name = f"s{len(self._created)}"
            await self._api.create(self._where.claims(), claim(name, 1))
            # The time of the request counts, too: the API server is as busy for it as for the operator.
            self._created[name] = time.monotonic()
            await self._api.create(self._where.pods(), pod(name))
            names.append(name)
            await asyncio.sleep(_PACE)
        await self.followed.until(lambda: all(name in self.followed.allocated for name in names), _WITHIN)
        return Waits.of([self.followed.allocated[name] - self._created[name] for name in names])


async def measure(pods: int, nodes: int, single: int, binaries: Binaries) -> Report:
    """Measure so many single pods without a group of `pods` on `nodes`, and as many at most beside it. Raises TimeoutError."""
    each, spare = pods // nodes, math.ceil(2 * single / DEVICES)
    async with AsyncExitStack() as stack:
        cluster, installation = await stack.enter_async_context(
            cluster_of_devices(binaries, nodes + spare, DEVICES)
        )
        await OperatorProbe(installation.operator_ports[0]).acting(_ACTING_SECONDS)
        others, team = [await gated_namespace(cluster, name) for name in ("others", "team")]
        singles, group = Singles(cluster.api, others), Followed(cluster.api, team)
        for each_followed in (singles.followed, group):
            await stack.enter_async_context(beside(each_followed.lists.run()))
            await each_followed.lists.listening()
        pids = {name: process.pid for name, process in cluster.processes.items()}
        operator = installation.operators[0].pid
        pids |= {"operator": operator} if operator is not None else {}

        alone = await singles.come(single)
        await _make(cluster.api, team, pods - 1, pods, DEVICES // each)
        await settled(pids)
        await cluster.api.create(team.claims(), claim(f"g{pods - 1}", DEVICES // each))
        done, began = asyncio.Event(), time.monotonic()
        await cluster.api.create(team.pods(), pod(f"g{pods - 1}", "gang", pods))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(singles.come(single, done))
            await group.until(lambda: len(group.let_go) >= pods, _WITHIN)
            done.set()
        return Report(
            pods,
            nodes,
            alone,
            waiting.result(),
            max(group.had_devices().values()) - began,
            max(group.let_go.values()) - began,
        )


async def _make(api: Api, where: PodsOf, number: int, least: int, devices: int) -> None:
    """Make so many pods of the group, with their claims."""
    slots = asyncio.Semaphore(_TOGETHER)

    async def one(name: str) -> None:
        async with slots:
            await api.create(where.claims(), claim(name, devices))
            await api.create(where.pods(), pod(name, "gang", least))

    async with asyncio.TaskGroup() as tasks:
        for index in range(number):
            tasks.create_task(one(f"g{index}"))
