"""App: builds the parts of the operator and runs them.

Reflectors feed the snapshot in every replica. One that has listed every kind tries for the lease, in a thread of its own. The cycle
acts only while this replica holds it (`leading.py`).
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

import kopf
import structlog
from prometheus_client import REGISTRY

from apportion import handlers, metrics
from apportion.allocator.rules.features import Features
from apportion.allocator.state import State
from apportion.api.contract import MANAGER
from apportion.cel import Programs
from apportion.cluster import kinds
from apportion.cluster.client import Client, connect
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.lease import Lease
from apportion.cluster.ownthread import run_in_own_thread
from apportion.cluster.recorder import Recorder
from apportion.cluster.reflector import Reflector
from apportion.cluster.serverversion import require_version
from apportion.cluster.snapshot import Snapshot
from apportion.connection import Connection
from apportion.errors import ApportionError
from apportion.fitness import Fitness
from apportion.gauges.gauges import Gauges
from apportion.gauges.pendingclaims import PendingClaims
from apportion.leading import lead
from apportion.partitions.controller import PartitionController
from apportion.parts import Parts
from apportion.probes import Probes
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.defrag.policies import DefragPolicies
from apportion.scheduling.deviceholds import DeviceHolds
from apportion.scheduling.preemption.evictor import Evictor
from apportion.scheduling.quota.statuses import QuotaStatuses
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites
from apportion.scheduling.writing.writer import Writer
from apportion.settings import OperatorSettings
from apportion.upkeep import upkeep
from apportion.web.process import PageProcess, command_of

SWITCH = 0.0005
"""Seconds after which a thread that computes lets others run."""

_log = structlog.get_logger()


class App:
    """The operator."""

    def __init__(
        self,
        settings: OperatorSettings,
        client: Client,
        version: tuple[int, int],
        stop: asyncio.Event,
        *,
        connect: Callable[[], Awaitable[Client]],
    ) -> None:
        """Setting `stop`, here or outside, ends the operator; `connect` makes a second client, for the lease alone."""
        clock, now = time.monotonic, lambda: datetime.now(UTC)
        self._client = client
        self._connect = connect
        self.debouncer = Debouncer(quiet=settings.cycle.quiet, longest=settings.cycle.longest, clock=clock)
        programs = Programs()
        programs.get("true")  # The tables of the parser are made before anybody waits: 0.13 s.
        self.snapshot = Snapshot(
            State(Features.of(version), programs),
            wake=self.debouncer.wake,
            wake_later=self.debouncer.wake_later,
            schedulers=settings.schedulers,
            drivers=settings.drivers,
        )
        self.lease = Lease(
            namespace=settings.namespace,
            name=settings.lease.name,
            identity=settings.identity,
            clock=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
            now=now,
            duration=settings.lease.duration,
            renew=settings.lease.renew,
            reserve=settings.lease.reserve,
            unfit=lambda: self.fitness.unfit(),  # noqa: PLW0108 - it is made below
            tell=asyncio.get_running_loop().call_soon_threadsafe,
            writing=lambda: self.fitness.acting or self._writes.open,
            unknown=lambda: self._writes.open,
            ending=self._expect,
        )
        self.recorder = Recorder(client, component=MANAGER, clock=clock, now=now)
        writer = Writer(
            client,
            fence=self.lease.fence,
            now=now,
            concurrency=settings.cycle.writes,
            sleep=self.lease.sleep,
        )
        self.partitions = PartitionController(
            client, self.snapshot, self.recorder, programs, fence=self.lease.fence, clock=clock, now=now
        )
        self._writes = BackgroundWrites(
            self.snapshot, writer, self.recorder, clock=clock, wake=self.debouncer.wake
        )
        evictor = Evictor(client, fence=self.lease.fence)
        self.cycle = Cycle(
            self.snapshot,
            self._writes,
            self.partitions,
            self.recorder,
            self.debouncer,
            evictor=evictor,
            settings=settings.cycle,
            clock=clock,
            manager=MANAGER,
        )
        self._quotas = QuotaStatuses(
            client, self.snapshot, self.recorder, self.cycle.quotas, fence=self.lease.fence, now=now
        )
        self._defrag = DefragPolicies(
            client,
            self.snapshot,
            self.cycle.decider,
            self.cycle.places,
            evictor,
            fence=self.lease.fence,
            now=now,
            clock=clock,
            wake=self.debouncer.wake,
        )
        self._holds = DeviceHolds(client, self.cycle, self._defrag.campaigns, fence=self.lease.fence)
        reflect = partial(Reflector, client, observe=self.snapshot.observe, answered=self.snapshot.answered)
        self._volumes = [
            reflect(kind=kind, optional=True, noted=self._note_volumes)
            for kind in (kinds.VOLUME_CLAIMS, kinds.VOLUMES, kinds.STORAGE_CLASSES)
        ]
        self._reflectors = [reflect(kind=kind, optional=kind in kinds.OPTIONAL) for kind in kinds.OBSERVED]
        self._reflectors += [*self._volumes, reflect(kind=kinds.DEFRAGS, optional=True)]
        for reflector in self._reflectors:
            metrics.WATCH_AGE.labels(reflector.kind.plural).set_function(reflector.age)
        metrics.LEASE_REMAINING.set_function(self.lease.remaining)
        self._parts = Parts()
        self.fitness = Fitness(
            self._reflectors,
            self._parts,
            held=self.lease.held,
            age=self.cycle.age,
            within=settings.lease.acting,
            stuck=settings.cycle.stuck,
        )
        self._stop = stop
        self._gauges = Gauges(
            self.snapshot,
            PendingClaims(self.snapshot, self.recorder.reason, now),
            self.cycle.quotas,
            acting=lambda: self.fitness.acting,
            waiting=lambda: self._quotas.pending,
            reserved=lambda: self.cycle.reserved,
            unanswered=lambda: self._writes.unknown,
        )
        self._probes = Probes(
            settings.health_port,
            alive=self.fitness.unhealthy,
            ready=self.fitness.unready,
            refresh=self._gauges.refresh,
        )
        self._page = PageProcess(command_of(settings)) if settings.web.port else None

    def connection(self) -> Connection:
        """Return how to reach the API server, with a token that is valid now, and until when to use it."""
        return Connection.of(self._client)

    def stopping(self) -> None:
        """Learn that kopf has stopped, which has the signal handlers, and stop too."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop` is set or a part fails; the process then ends, and Kubernetes starts it again."""
        registry = kopf.OperatorRegistry()
        handlers.register(registry, self)
        await self._probes.start()
        REGISTRY.register(self._gauges)
        try:
            async with asyncio.TaskGroup() as group:
                leading = lead(
                    self.lease,
                    catch_up=self._caught_up,
                    warm_up=self.snapshot.state.warm_up,
                    act=self._act,
                )
                acting = group.create_task(self._parts.run("acting", leading))
                tasks = [
                    group.create_task(self._parts.run(f"reflector of {each.kind.plural}", each.run()))
                    for each in self._reflectors
                ]
                tasks += [
                    group.create_task(self._parts.run("recorder", self.recorder.run())),
                    group.create_task(self._parts.run("upkeep", self._upkeep())),
                    group.create_task(self._parts.run("lease", run_in_own_thread("lease", self._hold_lease))),
                ]
                if self._page is not None:
                    tasks.append(group.create_task(self._parts.run("web page", self._page.run())))
                stopped = group.create_task(self._stop.wait())
                # kopf cancels whatever is started after it, so it comes last.
                watcher = group.create_task(
                    self._parts.run(
                        "kopf",
                        kopf.operator(
                            registry=registry, clusterwide=True, standalone=True, stop_flag=self._stop
                        ),
                    )
                )
                await asyncio.wait((watcher, stopped), return_when=asyncio.FIRST_COMPLETED)
                # The lease is released as soon as the last write has ended, because another replica waits for it; kopf
                # would first wait some seconds for our tasks.
                acting.cancel()
                await asyncio.wait((acting,))
                for task in (stopped, *tasks):
                    task.cancel()
                await watcher
        finally:
            REGISTRY.unregister(self._gauges)
            await self._probes.stop()

    async def _hold_lease(self) -> None:
        async with await self._connect() as client:
            await self.lease.run(client)

    async def _act(self) -> None:
        _log.info("operator.acting", claims=len(self.snapshot.claims), slices=len(self.snapshot.slices))
        self.fitness.set_acting(acting=True)
        try:
            # Before the first pass, which would give away what a leader before has held.
            self._defrag.resume()
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cycle.run())
                group.create_task(self.partitions.run())
                group.create_task(self._quotas.run())
                group.create_task(self._defrag.run())
                group.create_task(self._holds.run())
        finally:
            self.fitness.set_acting(acting=False)

    async def _upkeep(self) -> None:
        synced = asyncio.gather(*(each.synced.wait() for each in self._reflectors))
        await upkeep(self.snapshot.state, self.cycle.age, loaded=synced)

    def _expect(self) -> None:
        for reflector in self._reflectors:
            reflector.expect()

    async def _caught_up(self) -> None:
        await asyncio.gather(*(reflector.catch_up() for reflector in self._reflectors))

    def _note_volumes(self) -> None:
        self.snapshot.volumes.know(complete=all(each.listed for each in self._volumes))
        self.snapshot.retry_epoch += 1
        self.debouncer.wake()


async def run_operator(settings: OperatorSettings, stop: asyncio.Event) -> None:
    """Run the operator until `stop` is set. Raises ApportionError when it cannot start, or a part of it fails."""
    # While a thread evaluates a selector, the event loop waits so long for its turn after each call into the kernel.
    sys.setswitchinterval(SWITCH)
    new_client = partial(connect, settings.kubeconfig, patience=settings.patience, manager=MANAGER)
    async with await new_client() as client:
        version = await require_version(client)
        _log.info("operator.starting", kubernetes=f"{version[0]}.{version[1]}", identity=settings.identity)
        try:
            await App(settings, client, version, stop, connect=new_client).run()
        except* ApportionError as group:
            raise ApportionError("; ".join(map(str, group.exceptions))) from group
