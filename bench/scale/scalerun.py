"""One run: a large cluster is written into etcd, the operator starts, and is asked for one thing after another.

In: a world. Out: phases, in the order in which they are measured.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final, Self

from apportion.api.contract import MANAGED
from apportion.cluster.kinds import CLAIMS, ResourceKind
from bench.doubled import doubled
from bench.h100node import CARDS
from bench.operatorprobe import OperatorProbe
from bench.scale.etcd import Etcd
from bench.scale.figures import Phase
from bench.scale.newclaims import NewClaims
from bench.scale.world import NAMESPACE, Row, World
from bench.usage import MIB, Usage, settled
from testbed.api import Json
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.supervised import Supervised

_FRESH: Final = "fresh"
_QUOTA: Final = "--quota-backend-bytes=8589934592"
"""etcd's database may hold 8 GiB: with all MIG placements, slices alone take more than its default of 2 GiB."""
_ONES: Final = 5
"""Single claims, one after the other."""
_IDLE_WITHIN: Final = 60.0
_SEEN_WITHIN: Final = 120.0
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/apportion-system/leases/apportion-operator"

_CLOSED: Final = "apiserver_terminated_watchers_total{"

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured of a world."""

    world: World
    waiting: int = 1000
    """Claims that come at once, first such that fit and then such that no node has devices for."""
    window: float = 20.0
    """Seconds in which nothing comes."""
    lease: float = 15.0
    """Seconds of the operator's lease."""
    limit: float = 600.0
    """Seconds that any phase may take."""


class ScaleRun:
    """`async with ScaleRun(plan, binaries) as run: phases = await run.phases()`."""

    def __init__(self, plan: Plan, binaries: Binaries, show: Show = lambda _: None) -> None:
        self._plan = plan
        self._show = show
        self._stack = AsyncExitStack()
        self.control_plane = ControlPlane(
            binaries=binaries, components=(ETCD, APISERVER), flags={ETCD: [_QUOTA]}
        )

    async def __aenter__(self) -> Self:
        """Start etcd and the API server, install, and write the world. Raises TestbedError."""
        self._show("starting")
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        plane = await self._stack.enter_async_context(self.control_plane)
        self._installation = await self._stack.enter_async_context(
            Installation(
                plane,
                (),
                operators=0,
                agents=False,
                operator_options=("--lease-duration", f"{self._plan.lease:g}"),
            )
        )
        for name in (NAMESPACE, _FRESH):
            body = {"metadata": {"name": name, "labels": {MANAGED: "true"}}}
            await plane.api.create("/api/v1/namespaces", body)
            # No controller-manager runs, which would make it; without it no pod can be made.
            await plane.api.create(
                f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}
            )
        self._etcd = await self._stack.enter_async_context(Etcd(plane.etcd))
        self._show("writing the cluster into etcd")
        await self._etcd.load(self._plan.world.rows())
        await eventually(self._missing, lambda missing: not missing, within=_SEEN_WITHIN)
        self._new = NewClaims(plane.api, _FRESH, time.monotonic)
        await self._stack.enter_async_context(beside(self._new.reflector.run()))

    async def __aexit__(self, *_: object) -> None:
        """End everything."""
        await self._stack.aclose()

    async def phases(self) -> list[Phase]:
        """Measure everything. Raises TestbedError, and TimeoutError when a claim is not allocated in time."""
        found = [await self._measure_start(), await self._window("idle")]
        found.append(await self._ones("oneClaim"))
        world = self._plan.world
        found += [
            await self._events("claimEvents", world.claim_rows("1")),
            await self._events("podEvents", world.pod_rows("1")),
            await self._events("nodeEvents", world.node_rows("1")),
        ]
        if world.partitions:
            found.append(await self._events("partitionEvents", world.partition_rows("1")))
        found.append(await self._waiting())
        await self._new.make(self._plan.waiting, CARDS + 1)
        await settled(self._pids(), _IDLE_WITHIN)
        found += [await self._window("idleBesideRefused"), await self._ones("oneClaimBesideRefused")]
        found.append(await self._failover())
        await self._verify()
        return found

    async def _measure_start(self) -> Phase:
        """From the start of the process to the allocation of a claim that was there before."""
        self._show("start")
        names = await self._new.make(1)
        began = time.monotonic()
        self._leader = await self._installation.start_operator(0)
        self._probe = OperatorProbe(self._installation.operator_ports[0])
        seconds = await self._new.allocated(names, self._plan.limit) - began
        acting = Usage.of(self._pid())
        await settled(self._pids(), _IDLE_WITHIN)
        after = Usage.of(self._pid())
        extra = {"residentMiB": after.resident / MIB, "peakMiB": after.peak / MIB}
        objects = sum(self._plan.world.counts().values())
        return Phase("start", objects, seconds, acting.cpu, await self._probe.passes(), extra)

    async def _window(self, name: str) -> Phase:
        """Nothing comes for a while."""
        found = await self._phase(name, 0, lambda: asyncio.sleep(self._plan.window), settle=False)
        return replace(found, extra={"cpuSecondsAMinute": 60 * found.cpu / found.seconds})

    async def _ones(self, name: str) -> Phase:
        """Single claims, each made when the one before has its devices."""
        taken: list[float] = []

        async def work() -> None:
            for _ in range(_ONES):
                began = time.monotonic()
                [made] = await self._new.make(1)
                taken.append(1000 * (await self._new.allocated([made], self._plan.limit) - began))

        found = await self._phase(name, _ONES, work)
        return replace(found, extra={"allocatedMs": statistics.median(taken), "allocatedMaxMs": max(taken)})

    async def _events(self, name: str, rows: Iterable[Row]) -> Phase:
        """New versions of objects in which nothing changed that matters."""
        versions = list(rows)
        before = await self._closed_watches()
        found = await self._phase(name, len(versions), lambda: self._etcd.put(versions))
        return replace(found, extra={"closedWatches": await self._closed_watches() - before})

    async def _waiting(self) -> Phase:
        async def work() -> None:
            await self._new.allocated(await self._new.make(self._plan.waiting), self._plan.limit)

        found = await self._phase("waiting", self._plan.waiting, work)
        return replace(found, extra={"allocatedPerSecond": found.count / found.seconds})

    async def _failover(self) -> Phase:
        """From the leader's SIGKILL to the allocation of a claim that is made right after it."""
        self._show("failover")
        standby = await self._installation.start_operator(1)
        port = self._installation.operator_ports[1]
        await self._ready(standby, port)
        leader, self._leader, self._probe = self._leader, standby, OperatorProbe(port)
        await settled(self._pids(), _IDLE_WITHIN)
        before = Usage.of(self._pid()).cpu
        began = time.monotonic()
        leader.kill()
        await leader.stop()
        names = await self._new.make(1)
        seconds = await self._new.allocated(names, self._plan.limit) - began
        lease = await self.control_plane.api.get(_LEASE)
        extra = {"leaseSeconds": float(lease["spec"]["leaseDurationSeconds"])}
        spent = Usage.of(self._pid()).cpu - before
        return Phase("failover", 1, seconds, spent, await self._probe.passes(), extra)

    async def _ready(self, operator: Supervised, port: int) -> None:
        async def ready() -> bool:
            return operator.pid is not None and await OperatorProbe(port).ready()

        await eventually(ready, within=self._plan.limit)

    async def _phase(
        self, name: str, count: int, work: Callable[[], Awaitable[None]], *, settle: bool = True
    ) -> Phase:
        self._show(name)
        cpu, passes, began = Usage.of(self._pid()).cpu, await self._probe.passes(), time.monotonic()
        await work()
        seconds = time.monotonic() - began
        if settle:
            await settled(self._pids(), _IDLE_WITHIN)
        spent = Usage.of(self._pid()).cpu - cpu
        return Phase(name, count, seconds, spent, await self._probe.passes() - passes)

    async def _closed_watches(self) -> float:
        """Return how many watches the API server has closed because their client was too slow; it lists anew then."""
        lines = (await self.control_plane.api.text("/metrics")).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(_CLOSED))

    async def _verify(self) -> None:
        """Raise TestbedError unless all claims of the world kept their devices, and no device was allocated twice."""
        claims, _ = await self.control_plane.api.items(CLAIMS.path())
        settled_claims = [claim for claim in claims if claim["metadata"]["namespace"] == NAMESPACE]
        lost = sum("allocation" not in claim.get("status", {}) for claim in settled_claims)
        twice = doubled(claims)
        if lost or twice:
            raise TestbedError(f"{lost} claims lost their devices; allocated twice: {twice[:5]}")

    async def _missing(self) -> dict[str, int]:
        """Return how many of the objects in etcd the API server does not show, by kind."""
        shown = {kind: await self._count(kind) for kind in self._plan.world.counts()}
        counts = self._plan.world.counts().items()
        return {kind.plural: number - shown[kind] for kind, number in counts if number > shown[kind]}

    async def _count(self, kind: ResourceKind) -> int:
        page: Json = await self.control_plane.api.get(kind.path(), limit="1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    def _pids(self) -> Mapping[str, int]:
        return {"operator": self._pid()}

    def _pid(self) -> int:
        if self._leader.pid is None or self._leader.starts > 1:
            raise TestbedError(f"the operator ended by itself; see {self._leader.log}")
        return self._leader.pid
