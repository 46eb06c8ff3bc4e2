"""The agent: its graph, its start and its end.

In: options. Out: a running node agent, until the stop event. Watches only observe, workers act. The watches are plain reflectors, not kopf
handlers, which do not report what was deleted in a watch gap: a partition whose object vanished then would stay on the hardware.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import structlog

from apportion.agent.agentmetrics import AgentMetrics
from apportion.agent.backends import Found, find
from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.threads import in_own_thread
from apportion.agent.devices.values import CardKind
from apportion.agent.discovery import Discovery
from apportion.agent.driverpause import DriverPause, asked_pause
from apportion.agent.foreign import ForeignPolicy
from apportion.agent.hardwaremonitor import HardwareMonitor
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.journal import Journal
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.health import HealthFeed
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.plugin import Plugin
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.kubelet.recoverclaims import note_interrupted, recover_claims
from apportion.agent.lifecycle.begun import BEGUN, BegunCuts
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.network.nodenetworks import NodeNetworks
from apportion.agent.nodeevents import NodeEvents
from apportion.agent.ownnode import OwnNode
from apportion.agent.rows import ClaimRow
from apportion.agent.servedrivers import drivers_to_serve, needs_a_start
from apportion.agent.settings import AgentOptions
from apportion.agent.sharing.setups import Setups
from apportion.agent.slices.publisher import Publisher
from apportion.agent.slices.sharingpolicies import SharingPolicies
from apportion.agent.slices.succession import PUBLISHERS, Succession
from apportion.agent.startup import Restart, run_until_stopped
from apportion.api.partition import Partition
from apportion.cluster.client import Client, Object, connect
from apportion.cluster.kinds import PARTITIONS, SLICES, ResourceKind
from apportion.cluster.recorder import Recorder
from apportion.cluster.reflector import Reflector
from apportion.errors import NotReady
from apportion.probes import Probes

_log = structlog.get_logger()


async def run_agent(options: AgentOptions, stop: asyncio.Event) -> None:
    """Run until `stop` is set. Raises ApportionError when it cannot start: bad options, no API server, no hardware."""

    async def begin(begun: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            connected = await connect(options.kubeconfig, manager="apportion-agent")
            client = await stack.enter_async_context(connected)
            journal = await asyncio.to_thread(
                Journal, options.state_dir / "journal.db", options.read_boot_id()
            )
            stack.callback(journal.close)
            paused = await asked_pause(client, options.node)
            found = await in_own_thread(lambda: find(options, journal, paused=paused))
            await Agent(options, client, found, journal, paused=paused).run(stop, begun)

    await run_until_stopped(stop, begin)


class Agent:
    """All parts of one agent, wired."""

    def __init__(
        self, options: AgentOptions, client: Client, found: Found, journal: Journal, *, paused: str = ""
    ) -> None:
        self._options = options
        self._drivers = {**options.drivers, **found.generic.drivers}
        self._found = found
        self._hardware = hardware = Hardware(found.backends, awaited=found.awaited)
        self.context = AgentContext(
            client,
            hardware,
            journal,
            DesiredPartitions(self._partition_changed),
            locks_dir=options.state_dir / "locks",
            begun=BegunCuts(options.run_dir / BEGUN),
            timeouts=options.timeouts,
            at=options.at,
            adopt_foreign=options.foreign is ForeignPolicy.ADOPT,
        )
        self._networks = NodeNetworks(
            self.context, options.node, options.host_root, options.run_dir, socket=options.nri_socket
        )
        self._held_claims = HeldClaims(self.context, interval=options.held_interval, abandon=self._abandon)
        self._setups = Setups(self.context, options.state_dir, options.run_dir, CdiFolder(options.cdi_dir))
        self._inventory = InventoryBuilder(
            self.context,
            self._held_claims,
            quarantine=options.foreign is ForeignPolicy.QUARANTINE,
            sticky_errors=options.sticky_errors(),
            described=self._networks.offered.described,
            failing=lambda: self._setups.failing,
        )
        self.publisher = Publisher(
            client,
            options.node,
            self._drivers,
            self._inventory.build,
            Succession(options.run_dir / PUBLISHERS / options.node),
            unknown=lambda: bool(hardware.unknown),
        )
        self.context.slices_changed = self.publisher.wake
        self._node = self.context.node = OwnNode(client, options.node, self.publisher.wake)
        self._sharing = SharingPolicies(client, self._node, self.publisher.wake)
        self.context.sharing = self._sharing.current
        node = f"spec.nodeName={options.node}"
        self._recorder = Recorder(
            client, component="apportion-agent", clock=time.monotonic, now=lambda: datetime.now(UTC)
        )
        self._claim_status = ClaimStatusWriter(client, self.context.now)
        self._events = NodeEvents(client, self._recorder, options.node)
        self.context.warn = self._events.warn_anew
        self._monitor = HardwareMonitor(
            self.context,
            self._inventory,
            self._events,
            self._claim_status,
            changed=self._wake_all,
            rediscover=self._rediscover,
            misconfigured=found.misconfigured,
            interval=options.health_interval,
            files_interval=options.files_interval,
        )
        self._pause = DriverPause(self._node, hardware, why=paused, interval=options.health_interval)
        self._discovery = Discovery(options, self.context, found, self._pause)
        self._partitions = Reflector(client, PARTITIONS, self._partition_seen, fieldSelector=node)
        self._slices = Reflector(client, SLICES, self.publisher.observe, fieldSelector=node)
        self._workers: dict[str, CardWorker] = {}
        self._acting = False  # until it is known which claims are prepared, nothing is cut or removed
        self._tasks = asyncio.TaskGroup()
        self._running: list[asyncio.Task[None]] = []
        self.plugins: tuple[Plugin, ...] = ()
        self._kinds: Collection[str] = ()  # of the cards that were there, awaited or silent at the start
        self._served: Mapping[str, str] = {}  # driver by kind
        self._metrics = AgentMetrics(self.context, self._held_claims, self._inventory, self.unready)
        self._probes = Probes(options.health_port, ready=self.unready, registry=self._metrics.registry)

    def unready(self) -> str | None:
        """Say "starting" until all slices are published and all sockets served, and while a driver with cards here does not answer; else None."""
        known = not self.publisher.kept and not self._hardware.failures
        served = bool(self.plugins) or not self._hardware.cards
        return None if known and self.publisher.published.is_set() and served else "starting"

    async def run(self, stop: asyncio.Event, begun: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop` is set; then leave kubelet first, and everything else after it. Raises NotReady when it is to start anew.

        `begun` is called before anything is cut or served; until then nothing is lost when the run is cancelled.
        """
        restart, cards = Restart(stop), await self._discovery.first()
        await self._setups.look()
        await self._inventory.read_health()
        silent = self._found.kinds(incomplete=self._hardware.incomplete)
        self._kinds = kinds = {*(card.kind for card in cards.values()), *silent}
        claims = self.context.journal.claims()
        self._served = drivers_to_serve(self._drivers, kinds, claims, self._options.plugins_dir)
        _log.info("agent.discovered", node=self._options.node, cards=sorted(cards))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._probes.stop)
            await self._probes.start()
            async with self._tasks:
                self._start(self._partitions.run(), self._slices.run(), self._node.run())
                # Before the list is complete, the partition of a claim would be taken for one without an object, and removed.
                await self._partitions.synced.wait()
                await self._recover_claims()
                begun()
                self._acting = True
                cut = [row.place.card for row in self.context.journal.partitions().values()]
                # Those of a card that has left, too: no event would come about them any more.
                asked = [partition.spec.parent for partition in self.context.desired.all()]
                for card in (*cut, *cards, *asked):
                    self._worker(card)
                self.publisher.withhold(self._served.values())
                self._start(self.publisher.run(), self._held_claims.run(), self._recorder.run())
                self._start(self._claim_status.run(), self._setups.run(self._options.held_interval))
                self._start(self._sharing.run(), restart.by(self._monitor.run()))
                if self._found.pausable:
                    self._start(restart.by(self._pause.run()))
                self.plugins = tuple(self._plugin(driver, kind) for kind, driver in self._served.items())
                self._start(self._monitor.keep_files([plugin.preparer for plugin in self.plugins]))
                patience = self._options.registration_patience
                try:
                    for plugin in self.plugins:
                        await plugin.start()
                        self._start(plugin.when_registered(self.publisher.offer, patience))
                    _log.info("agent.serving", node=self._options.node)
                    await stop.wait()
                    _log.info("agent.stopping", node=self._options.node)
                finally:
                    # Kubelet first: no call may reach workers that are gone, as they are when a part of the agent failed.
                    seconds = self._options.end_timeout if stop.is_set() else 0.0
                    await asyncio.gather(*(plugin.stop(seconds) for plugin in self.plugins))
                for task in self._running:
                    task.cancel()
            await self._hardware.settle()
        if restart.why is not None:
            raise restart.why

    def _start(self, *runs: Coroutine[object, None, None]) -> None:
        self._running += [self._tasks.create_task(run) for run in runs]

    async def _recover_claims(self) -> None:
        """Remember what a lost journal knew, before anybody takes it for free."""
        await note_interrupted(self.context)
        # Also those of drivers whose cards are not there now: what is prepared on them is unknown, not gone.
        for driver in self._served.values():
            cdi, metadata = self._files(driver)
            await recover_claims(self.context, cdi, metadata, driver=driver, node=self._options.node)
        if any(card.kind == CardKind.NIC for card in self._hardware.cards.values()):
            await self._networks.pods.recover()
            await self._networks.offered.look()
            self._start(self._networks.runtime.run())

    def _files(self, driver: str) -> tuple[CdiFolder, MetadataFolder]:
        options = self._options
        metadata = MetadataFolder(options.plugins_dir / driver, driver, options.rank_tables(driver))
        return CdiFolder(options.cdi_dir), metadata

    async def _abandon(self, row: ClaimRow) -> bool:
        """Undo a preparation that was never finished, for a claim that is gone."""
        found = [plugin.preparer for plugin in self.plugins if plugin.driver == row.driver]
        return bool(found) and await found[0].abandon(ClaimRef(row.namespace, row.name, row.uid))

    def _plugin(self, driver: str, kind: str) -> Plugin:
        options = self._options
        preparer = Preparer(
            self.context,
            *self._files(driver),
            self._setups,
            driver=driver,
            kind=kind,
            node=options.node,
            try_now=lambda card, partition: self._worker(card).try_now(partition),
            networks=self._networks.pods,
            claim_status=self._claim_status,
            on_unprepared=self._held_claims.released,
            observe_seconds=self._metrics.prepare_seconds.labels(driver).observe,
            timeout=options.prepare_timeout,
        )
        health = HealthFeed(
            options.node,
            lambda: self._inventory.devices(kind),
            last_read=lambda: self._inventory.last_read,
            changed=self._monitor.health,
        )
        folders = {"plugins": options.plugins_dir, "registry": options.registry_dir}
        return Plugin(preparer, health, **folders, instance=options.instance)

    def _partition_seen(self, kind: ResourceKind, change: str, item: Object) -> None:
        self.context.desired.observe(kind, change, item)
        self._events.observe(kind, change, item)

    def _wake_all(self) -> None:
        """The hardware is not as it was."""
        self.publisher.wake()
        for worker in self._workers.values():
            worker.wake()

    def _partition_changed(self, partition: Partition) -> None:
        self.context.partition_changed.wake()
        if self._acting:
            self._worker(partition.spec.parent).wake()

    def _worker(self, card: str) -> CardWorker:
        """Return the card's worker, started if needed; Partitions may name cards that this node has not."""
        if card not in self._workers:
            worker = self._workers[card] = CardWorker(self.context, card)
            self._start(worker.run())
        return self._workers[card]

    async def _rediscover(self) -> None:
        """Take up cards that did not answer before. Raises NotReady when the agent is to start anew for them."""
        changed = await self._discovery.later()
        for name in changed & self._hardware.cards.keys():
            _log.info("agent.card_changed", node=self._options.node, card=name)
            if needs_a_start(self._hardware.cards[name].kind, self._kinds, self._served):
                raise NotReady(f"{name} answers, the first of its kind: the agent starts anew to serve it")
            self._worker(name).wake()
        await self._events.note("RdmaNamespaceMode", self._networks.mode())
        if await self._networks.offered.look() or changed:
            self.publisher.wake()
