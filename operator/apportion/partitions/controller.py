"""PartitionController: carry out what claims, layouts and warm counts want of partitions.

In: the snapshot. Out: Partition objects, DeviceClasses of layouts, statuses. A task of the leader beside the cycle; every
write is fenced by the lease, and a refused one is tried again later. One object waits for no other one's answer, and namespaces
take turns in what is written about their partitions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from apportion.api.conditions import same
from apportion.api.contract import AGENT_FINALIZER
from apportion.api.model import ObjectMeta
from apportion.api.partition import Partition, Phase
from apportion.api.policy import AllocationPolicy
from apportion.api.unresolved import newly_unresolved
from apportion.cel import Programs
from apportion.cluster.client import Client
from apportion.cluster.kinds import LAYOUTS, NODES, PARTITIONS, POLICIES, ResourceKind
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.writeturns import WriteTurns
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.errors import ApiError, Missing, NotLeading, Overtaken
from apportion.partitions.actions import Action, Create, Delete, SetHolder, body_of, namespace
from apportion.partitions.claimphase import phase_of
from apportion.partitions.classwriter import ClassWriter
from apportion.partitions.dynamicpartitions import DynamicPartitions
from apportion.partitions.layoutcard import users
from apportion.partitions.layoutholds import LayoutHolds
from apportion.partitions.layoutplanner import LayoutPlanner
from apportion.partitions.layouts import LayoutPlan, orphans, passing_orphans
from apportion.partitions.leaving import in_use
from apportion.partitions.ongoing import Ongoing
from apportion.partitions.status import layout_status, policy_status

_log = structlog.get_logger()
_GONE_AFTER = 60.0
"""Seconds without a Node object after which its Partitions are let go."""
_IDLE = 1.0
"""Seconds after which it acts although nothing changed: idle timeouts end by the clock."""
_STATUS_PAUSE = 1.0
"""Seconds between two statuses of a policy: its counts move with every claim."""
_WRITES, _WRITES_BESIDE, _WRITES_ALONE = 32, 8, 24
"""Writes about partitions at once: in all, of a namespace beside others, and of one alone."""


class PartitionController:
    """Writes Partitions, DeviceClasses of layouts, and the statuses of layouts and policies."""

    def __init__(
        self,
        client: Client,
        snapshot: Snapshot,
        recorder: Recorder,
        programs: Programs,
        *,
        fence: Callable[[], None],
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._recorder = recorder
        self._planner = LayoutPlanner(snapshot, programs)
        self._fence = fence
        self._clock = clock
        self._now = now
        self._dynamic = DynamicPartitions(clock)
        self._classes = ClassWriter(client, snapshot, recorder, fence=fence)
        self._holds = LayoutHolds(snapshot)
        self._compared: dict[str, float] = {}
        """When the status of each policy (UID) was last compared."""
        self._gone_since: dict[str, float] = {}
        self._planned = (-1, -1, frozenset[str]())
        """Device and partition epoch that the plans were made in, and the layouts that could not be read: no epoch grows when one of them goes."""
        self._wake = asyncio.Event()
        self._plans: list[LayoutPlan] = []
        self._orphans: list[Delete] = []
        self._passing: list[DeviceId] = []
        self._turns = WriteTurns(_WRITES, _WRITES_BESIDE, alone=_WRITES_ALONE)
        self._ongoing = Ongoing(self._wake.set)
        self._begun: set[str] = set()
        """What was begun about in this look: a second work would be begun as soon as the first ends, and that again, as fast as the server refuses them."""

    def phase(self, claim: Claim) -> Phase | None:
        """Return the worst phase of the partitions that the claim's devices need; None when it needs none."""
        return phase_of(claim, self._snapshot)

    def wake(self) -> None:
        """Let `run` act now."""
        self._wake.set()

    def steps(self) -> Iterator[None]:
        """Look at the cards of which something changed, so that `reserve` need not; yields where others may run."""
        return self._planner.steps()

    def reserve(self) -> bool:
        """Plan the layouts and keep claims off what they want; says whether anything changed since the last plan.

        Nothing is written: the caller lets `run` do that, by `wake`.
        """
        unread = self._snapshot.left_out(LAYOUTS)
        epoch = (self._snapshot.device_epoch, self._snapshot.partition_epoch, unread)
        if self._planned == epoch and not self._is_outdated():
            return False
        self._planned = epoch
        self._plans = self._planner.plans()
        # They are held from here on: one that is found later could be given away while it is deleted.
        self._orphans = orphans(self._snapshot, self._plans)
        self._passing = passing_orphans(self._snapshot, self._plans)
        freed = self._holds.follow(self._plans, self._orphans)
        self._snapshot.retry_epoch += bool(freed)
        for device in freed:
            # What is kept warm may have room there now.
            self._snapshot.devices.touch(device)
        self._planner.pass_over()
        return True

    def _is_outdated(self) -> bool:
        """Say whether something that was in the way of the plans, or kept a partition whose layout is gone, is free without any trace."""
        return any(plan.is_outdated(self._snapshot) for plan in self._plans) or any(
            not users(device, self._snapshot) for device in self._passing
        )

    async def run(self) -> None:
        """Act whenever the plans changed, and from time to time for what ends by the clock, until cancelled."""
        # The first pass may take long. What was seen in an earlier term is outdated: layouts and nodes have come since, and idle partitions were used.
        self._gone_since.clear()
        self._dynamic = DynamicPartitions(self._clock)
        for _ in self.steps():
            await asyncio.sleep(0)
        if self.reserve():
            self._wake.set()
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_IDLE):
                        await self._wake.wait()
                self._wake.clear()
                await self._begin()
        finally:
            await self._ongoing.end()

    async def act(self) -> None:
        """Do once all that is wanted and not yet there."""
        await self._begin()
        await self._ongoing.finished()

    async def _begin(self) -> None:
        """Begin all that is wanted, not yet there and not being done; of two things about one object the first."""
        self._begun.clear()
        for number, actions in enumerate(self._dynamic.steps(self._snapshot, self._ongoing)):
            self._start_all(actions)
            if number:
                await asyncio.sleep(0)
        # A plan is acted by until the next one, and a claim that got a partition since keeps it.
        planned = [*(action for plan in self._plans for action in plan.actions), *self._orphans]
        self._start_all(
            action
            for action in planned
            if not (isinstance(action, Delete) and in_use(action.partition, self._snapshot))
        )
        policies = {policy.metadata.uid for policy in self._snapshot.policies.values()}
        self._compared = {uid: at for uid, at in self._compared.items() if uid in policies}
        for plan in self._plans:
            for raw in plan.classes:
                self._start(f"class/{raw['metadata']['name']}", partial(self._classes.write, raw, plan))
            for found in self._classes.stale(plan):
                self._start(f"class/{found.name}", partial(self._classes.drop, found))
            self._start(plan.layout.metadata.uid, partial(self._layout, plan))
        for policy in self._snapshot.policies.values():
            self._start(policy.metadata.uid, partial(self._policy, policy))
        for partition in self._gone():
            self._start(partition.metadata.name, partial(self._let_go, partition))

    def _start_all(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._start(action.partition.metadata.name, partial(self._in_turn, action))

    def _start(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        if key not in self._begun:
            self._begun.add(key)
            self._ongoing.begin(key, partial(self._try, work))

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NotLeading:
            return
        except (Overtaken, Missing) as error:
            # Somebody else wrote first: the watch will show the object as it is now, or its deletion.
            _log.debug("partition.overtaken", error=str(error))
        except ApiError as error:
            _log.warning("partition.write_failed", error=str(error))

    async def _in_turn(self, action: Action) -> None:
        # A deletion is not put off: whether nobody needs the partition was looked at now.
        async with nullcontext() if isinstance(action, Delete) else self._turns.of(namespace(action)):
            await self._carry_out(action)

    async def _carry_out(self, action: Action) -> None:
        self._fence()
        partition = action.partition
        metadata = partition.metadata
        log = _log.bind(partition=metadata.name, profile=partition.spec.profile)
        match action:
            case Create():
                self._note(await self._client.create(PARTITIONS, body_of(partition)))
                log.info("partition.wanted", origin=str(partition.spec.origin))
            case SetHolder(holder=holder):
                raw = holder.to_json() if holder is not None else None
                change = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"holder": raw}}
                self._note(await self._client.patch(PARTITIONS, metadata.name, change))
                event = "partition.held" if holder else "partition.idle"
                log.info(event, holder=holder.name if holder else None)
            case Delete(reason=reason):
                version = metadata.resource_version
                await self._client.delete(PARTITIONS, metadata.name, uid=metadata.uid, version=version)
                log.info("partition.released", reason=reason)

    def _note(self, raw: dict[str, Any]) -> None:
        # Observed at once: a pass before the watch shows our own write would repeat it.
        self._snapshot.observe(PARTITIONS, "MODIFIED", raw)

    async def _layout(self, plan: LayoutPlan) -> None:
        metadata = plan.layout.metadata
        plan.broken = plan.broken or self._classes.refused(plan)
        status = layout_status(plan, self._now())
        if plan.broken is not None:
            self._recorder.warning(
                About(LAYOUTS, metadata.name, metadata.uid),
                "BrokenLayout",
                f"PartitionLayout {metadata.name}: {plan.broken}",
            )
        await self._status(LAYOUTS, metadata, plan.layout.status.to_json(), status)

    async def _policy(self, policy: AllocationPolicy) -> None:
        metadata = policy.metadata
        if self._clock() - self._compared.get(metadata.uid, -_STATUS_PAUSE) < _STATUS_PAUSE:
            return
        self._compared[metadata.uid] = self._clock()
        status = policy_status(policy, self._snapshot, self._now(), self._dynamic.short())
        about = About(POLICIES, metadata.name, metadata.uid)
        for name, older in self._snapshot.managed.conflicts.get(metadata.name, ()):
            self._recorder.warning(
                about,
                "Overlap",
                f"spec.deviceClasses: DeviceClass {name} already obeys AllocationPolicy {older}, which is older",
            )
        if (news := newly_unresolved(policy.status.conditions, status)) is not None:
            self._recorder.warning(about, "Unresolved", news)
        await self._status(POLICIES, metadata, policy.status.to_json(), status)

    async def _status(
        self, kind: ResourceKind, metadata: ObjectMeta, old: dict[str, Any], new: dict[str, Any]
    ) -> None:
        if same(old, new) or metadata.uid in self._snapshot.broken:
            return
        self._fence()
        body = {"metadata": {"resourceVersion": metadata.resource_version}, "status": new}
        made = await self._client.patch(kind, metadata.name, body, sub="status")
        self._snapshot.observe(kind, "MODIFIED", made)

    def _gone(self) -> list[Partition]:
        """Return Partitions whose Node object has been missing for so long that no agent will ever answer."""
        now, devices = self._clock(), self._snapshot.devices
        unread = {found.name for found in self._snapshot.broken.values() if found.kind == NODES}
        self._gone_since = {name: self._gone_since.get(name, now) for name in devices.nodeless - unread}
        gone = [name for name, since in self._gone_since.items() if now - since >= _GONE_AFTER]
        return [partition for name in gone for partition in devices.on_node(name)]

    async def _let_go(self, partition: Partition) -> None:
        self._fence()
        metadata = partition.metadata
        if metadata.deletion_timestamp is None:
            # The finalizer goes when the watch shows the deletion, so that the patch depends on what was seen.
            await self._client.delete(PARTITIONS, metadata.name, uid=metadata.uid)
            return
        kept = [finalizer for finalizer in metadata.finalizers if finalizer != AGENT_FINALIZER]
        body = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": kept}}
        await self._client.patch(PARTITIONS, metadata.name, body)
        _log.info("partition.let_go", partition=metadata.name, node=partition.spec.node_name)
