"""App: builds the parts of the operator and runs them.

Reflectors and kopf feed the snapshot all the time, in every replica. The cycle acts only while this replica holds the lease,
and only after every kind was listed and every listed object observed.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import kopf
import structlog

from apportion import handlers, metrics
from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.state import State
from apportion.cel import Programs
from apportion.cluster.client import Client, connect, require_version
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.health import Health
from apportion.cluster.kinds import (
    NODES,
    PODS,
    SLICES,
    STORAGE_CLASSES,
    TAINT_RULES,
    VOLUME_CLAIMS,
    VOLUMES,
    ResourceKind,
)
from apportion.cluster.lease import Lease
from apportion.cluster.recorder import Recorder
from apportion.cluster.reflector import Reflector
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.snapshotcomparer import SnapshotComparer
from apportion.collector import Collector
from apportion.partitions.controller import PartitionController
from apportion.scheduling.backgroundwrites import BackgroundWrites
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.writer import Writer
from apportion.settings import OperatorSettings

MANAGER = "apportion-operator"
"""Field manager of everything that the operator writes, and name on its Events."""

_REST = 1.0
"""Seconds without a pass after which upkeep may run."""
_STUCK = 60.0
"""Seconds without a pass after which a leader counts as dead."""

_log = structlog.get_logger()


def features_of(version: tuple[int, int]) -> Features:
    """Return the feature gates that are on by default in this version of Kubernetes."""
    return replace(DEFAULT_FEATURES, fractional_capacity_range=version >= (1, 37))


class App:
    """The operator."""

    def __init__(
        self, settings: OperatorSettings, client: Client, version: tuple[int, int], stop: asyncio.Event
    ) -> None:
        """Setting `stop`, here or outside, ends the operator."""
        clock, now = time.monotonic, lambda: datetime.now(UTC)
        self._client = client
        self.debouncer = Debouncer(quiet=settings.cycle.quiet, longest=settings.cycle.longest, clock=clock)
        programs = Programs()
        self.snapshot = Snapshot(
            State(features_of(version), programs), wake=self.debouncer.wake, schedulers=settings.schedulers
        )
        self.lease = Lease(
            client,
            namespace=settings.namespace,
            name=settings.lease.name,
            identity=settings.identity,
            clock=clock,
            now=now,
            duration=settings.lease.duration,
            renew=settings.lease.renew,
            reserve=settings.lease.reserve,
        )
        self.recorder = Recorder(client, component=MANAGER, clock=clock, now=now)
        writer = Writer(client, fence=self.lease.fence, now=now, concurrency=settings.cycle.writes)
        self.partitions = PartitionController(
            client, self.snapshot, self.recorder, programs, fence=self.lease.fence, clock=clock, now=now
        )
        writes = BackgroundWrites(self.snapshot, writer, self.recorder, clock=clock, wake=self.debouncer.wake)
        self.cycle = Cycle(
            self.snapshot,
            writes,
            self.partitions,
            self.recorder,
            self.debouncer,
            settings=settings.cycle,
            clock=clock,
            manager=MANAGER,
        )
        self._reflectors = [
            Reflector(client, kind, self.observe, optional=kind == TAINT_RULES)
            for kind in (NODES, PODS, SLICES, TAINT_RULES)
        ]
        self._volumes = [
            Reflector(client, kind, self.observe, optional=True)
            for kind in (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)
        ]
        self._reflectors += self._volumes
        self._comparer = SnapshotComparer(client, self.snapshot, handlers.FED_BY_KOPF)
        self._stop = stop
        self._health = Health(settings.health_port, alive=self._sick, ready=self._unready)

    def observe(self, kind: ResourceKind, change: str, raw: Mapping[str, Any]) -> None:
        """Receive one watch event."""
        self.snapshot.observe(kind, change, raw)

    def connection(self) -> kopf.ConnectionInfo:
        """Return how to reach the API server, with a token that is valid now."""
        settings = self._client.settings
        token = (settings.api_key or {}).get("BearerToken", "").removeprefix("Bearer ")
        return kopf.ConnectionInfo(
            server=str(settings.host),
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            token=token or None,
            scheme="Bearer" if token else None,
            certificate_path=settings.cert_file,
            private_key_path=settings.key_file,
        )

    def stopping(self) -> None:
        """Learn that kopf has stopped, which has the signal handlers, and stop too."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop` is set or a part fails; the process then ends, and Kubernetes starts it again."""
        registry = kopf.OperatorRegistry()
        handlers.register(registry, self)
        await self._health.start()
        try:
            async with asyncio.TaskGroup() as group:
                acting = group.create_task(self._lead())
                tasks = [group.create_task(each.run()) for each in self._reflectors]
                tasks += [
                    group.create_task(self.recorder.run()),
                    group.create_task(self.lease.run()),
                    group.create_task(self._comparer.run()),
                ]
                stopped = group.create_task(self._stop.wait())
                # kopf cancels whatever is started after it, so it comes last.
                watcher = group.create_task(
                    kopf.operator(registry=registry, clusterwide=True, standalone=True, stop_flag=self._stop)
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
            await self._health.stop()

    async def _lead(self) -> None:
        """Act whenever this replica holds the lease and the snapshot is complete."""
        while True:
            await self.lease.gained.wait()
            await self._synced()
            # Views of all nodes are built now, so that the first claim does not wait for them.
            self.snapshot.state.settle()
            collector = Collector()
            collector.take_over(time.monotonic())
            metrics.LEADING.set(1)
            _log.info("operator.acting", claims=len(self.snapshot.claims), slices=len(self.snapshot.slices))
            acting = asyncio.ensure_future(self._act())
            resting = asyncio.ensure_future(self._rest(collector))
            lost = asyncio.ensure_future(self.lease.lost.wait())
            try:
                await asyncio.wait((acting, lost), return_when=asyncio.FIRST_COMPLETED)
                if acting.done():
                    acting.result()
            finally:
                metrics.LEADING.set(0)
                lost.cancel()
                resting.cancel()
                acting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await acting

    async def _act(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cycle.run())
            group.create_task(self.partitions.run())

    async def _rest(self, collector: Collector) -> None:
        """While no claim waits, do work that a later claim would have to wait for."""
        while True:
            await asyncio.sleep(_REST)
            if self.cycle.age() >= _REST:
                self.snapshot.state.settle()
                collector.quiet(time.monotonic())

    async def _synced(self) -> None:
        for reflector in self._reflectors:
            await reflector.synced.wait()
        self.snapshot.volumes.complete = all(reflector.listed for reflector in self._volumes)
        await self._comparer.complete()

    def _sick(self) -> str | None:
        if metrics.LEADING._value.get() and self.cycle.age() > _STUCK:  # noqa: SLF001 - a gauge has no public getter
            return f"no pass for {self.cycle.age():.0f} s"
        return None

    def _unready(self) -> str | None:
        waits = [r for r in self._reflectors if not r.synced.is_set()]
        return f"{len(waits)} kinds are not listed yet" if waits else None


async def run_operator(settings: OperatorSettings, stop: asyncio.Event) -> None:
    """Run the operator until `stop` is set. Raises ApportionError when it cannot start."""
    async with await connect(settings.kubeconfig, patience=settings.patience, manager=MANAGER) as client:
        version = await require_version(client)
        _log.info("operator.starting", kubernetes=f"{version[0]}.{version[1]}", identity=settings.identity)
        await App(settings, client, version, stop).run()
