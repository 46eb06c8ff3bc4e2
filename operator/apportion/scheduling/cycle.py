"""Cycle: the one task that acts.

In: the snapshot, woken by its changes. Out: written allocations, opened gates, cleared allocations, partitions. One
task needs no locks and cannot race itself; what it decided is assumed at once, written in the background, and forgotten
when the write fails.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import structlog

from apportion import metrics
from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.score.strategy import Strategy
from apportion.api.partition import Phase
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.window import Window
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.dra.taint import Toleration
from apportion.errors import ApiError, BrokenInput, NotLeading, Overtaken
from apportion.scheduling import notices
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.gates import open_gates
from apportion.scheduling.giveback import GiveBack
from apportion.scheduling.overlaps import Overlap, overlaps
from apportion.scheduling.room import Room
from apportion.scheduling.waiting import Mixed, Unknown, Waiting, waiting
from apportion.scheduling.writer import OWN_FINALIZER, Writer
from apportion.settings import CycleSettings

_log = structlog.get_logger()
_GUARD = Toleration(key="apportion.dev/guard", operator="Exists")
"""Keeps kube-scheduler off our devices; it is no obstacle to us."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 30.0


class Partitions(Protocol):
    """The control side of partitions, as far as the cycle needs it."""

    def reserve(self) -> None:
        """Keep claims off what layouts want."""

    def phase(self, claim: Claim) -> Phase | None:
        """Return the worst phase of the partitions behind a claim."""


class Cycle:
    """Observe happened elsewhere; here is act."""

    def __init__(
        self,
        snapshot: Snapshot,
        writer: Writer,
        partitions: Partitions,
        recorder: Recorder,
        window: Window,
        *,
        settings: CycleSettings,
        clock: Callable[[], float],
        manager: str,
    ) -> None:
        self._snapshot = snapshot
        self._writer = writer
        self._partitions = partitions
        self._recorder = recorder
        self._window = window
        self._settings = settings
        self._clock = clock
        self._exclusions = Exclusions(clock)
        self._give_back = GiveBack(clock, manager=manager)
        self._manager = manager
        self._number = 0
        self._refused: dict[str, tuple[int, int]] = {}
        """Epoch in which a demand was last refused, by demand."""
        self._paused: dict[str, tuple[float, float]] = {}
        """Until when a demand waits after a failed write, and how long the pause was."""
        self._examined = -1
        """Slice epoch in which pools were last looked at for contradictions."""
        self._idle: dict[DeviceId, int] = {}
        """Live partitions that nobody uses: choosing one cuts nothing."""
        self._first_seen: dict[str, float] = {}
        self._overlaps: tuple[int, list[Overlap]] | None = None
        """What was found, and in which device epoch."""
        self._ungating: set[str] = set()
        """Pods whose gate we are removing, or have removed and not yet seen gone."""
        self._clearing: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last = clock()

    def age(self) -> float:
        """Seconds since the last pass began."""
        return self._clock() - self._last

    async def run(self) -> None:
        """Act until cancelled; writes that are under way are waited for."""
        # What was taken back while another replica acted was that one's doing, or its to note.
        self._snapshot.taken_back.clear()
        try:
            while True:
                await self._window.closed(patience=self._settings.idle)
                self.once()
        finally:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def once(self) -> None:
        """One pass: decide for everybody who waits, then tidy up."""
        self._number += 1
        self._last = self._clock()
        log = _log.bind(cycle=self._number)
        metrics.CYCLES.inc()
        with metrics.CYCLE_SECONDS.time():
            # 1. What did others do to our allocations?
            self._note_take_backs()
            contested = self._settle_overlaps()

            # 2. Who waits, and who can never be served?
            demands, hopeless = waiting(self._snapshot)
            self._report(demands, hopeless)

            # 3. Freeze the world: what layouts want, what is idle, how full the nodes are.
            self._partitions.reserve()
            self._idle = dict.fromkeys(idle_partitions(self._snapshot), 1)
            room = self._room()

            # 4. and 5. Decide one at a time; each decision is assumed before the next one is made.
            granted = 0
            for demand in demands:
                granted += self._decide(demand, room)

            # 6. Let go whose allocation the watch has shown, and give back what nobody wants.
            gated = list(open_gates(self._snapshot, contested=contested, phase=self._partitions.phase))
            self._ungating &= {pod.uid for pod in gated}
            for pod in gated:
                self._ungate(pod)
            for claim in self._give_back.due(self._snapshot):
                self._clear(claim, "nobody wants it", "unwanted")
            self._failed_cuts()
            self._release_finalizers()
        if granted:
            log.info("cycle.decided", granted=granted, waiting=len(demands))

    # What others did. -------------------------------------------------------------------------------------------

    def _note_take_backs(self) -> None:
        while self._snapshot.taken_back:
            event = self._snapshot.taken_back.popleft()
            node = self._snapshot.node(event.allocation.node or "")
            for pod in self._snapshot.users(event.claim):
                if node is None or not event.concerns(pod.uid):
                    continue
                if pod.node is None and not pod.finished and not pod.deleting:
                    metrics.TAKE_BACKS.inc()
                    seconds = self._exclusions.refuse_node(pod.uid, node)
                    notices.taken_back(self._recorder, pod, node.name, seconds)
                    _log.info(
                        "claim.taken_back",
                        claim=event.claim.key,
                        pod=pod.key,
                        node=node.name,
                        seconds=seconds,
                    )
        self._exclusions.forget_pods(lambda uid: uid in self._snapshot.pods)

    def _settle_overlaps(self) -> frozenset[str]:
        if self._overlaps is None or self._overlaps[0] != self._snapshot.device_epoch:
            self._overlaps = (self._snapshot.device_epoch, overlaps(self._snapshot))
        found = self._overlaps[1]
        metrics.OVERLAPS.set(len(found))
        for overlap in found:
            loser = overlap.loser
            if loser is None:
                notices.overlap_stuck(self._recorder, overlap.claims, overlap.what)
            elif loser.allocated_by == self._manager or self._snapshot.management.owns(loser):
                notices.overlap_cleared(self._recorder, loser, overlap.what)
                self._clear(loser, f"{overlap.what} was allocated twice", "overlap")
        return frozenset(claim.uid for overlap in found for claim in overlap.claims)

    # Deciding. --------------------------------------------------------------------------------------------------

    def _report(self, demands: list[Waiting], hopeless: list[Mixed | Unknown]) -> None:
        metrics.PENDING.set(len(demands))
        for found in hopeless:
            notices.hopeless(self._recorder, found)
        for broken in self._snapshot.broken.values():
            notices.unreadable(self._recorder, broken)
        if self._examined != self._snapshot.slice_epoch:
            self._examined = self._snapshot.slice_epoch
            for finding in self._snapshot.state.findings():
                notices.broken_pool(self._recorder, finding, self._snapshot)
        for manager, uids in self._snapshot.claim_index.by_allocator.items():
            if manager not in ("", self._manager):
                for claim in self._snapshot.claims_of(uids):
                    if self._snapshot.management.owns(claim):
                        notices.foreign(self._recorder, claim)
        keys = {demand.key for demand in demands}
        now = self._clock()
        self._first_seen = {key: self._first_seen.get(key, now) for key in keys}
        self._refused = {key: epoch for key, epoch in self._refused.items() if key in keys}
        self._paused = {key: pause for key, pause in self._paused.items() if key in keys}

    def _room(self) -> Room:
        room = Room(self._snapshot.nodes, self._snapshot.pod_index.load)
        for pod in self._snapshot.pods_of(self._snapshot.pod_index.unbound):
            promised = self._promised(pod)
            if promised is not None:
                room.take(promised, pod)
        return room

    def _promised(self, pod: Pod) -> str | None:
        """Return the node to which an allocation sends an unbound pod."""
        for entry in pod.claims:
            claim = self._snapshot.claim(pod.namespace, entry.claim) if entry.claim else None
            allocation = self._snapshot.allocation(claim) if claim is not None else None
            if allocation is not None and allocation.node is not None:
                return allocation.node
        return None

    def _decide(self, demand: Waiting, room: Room) -> int:
        """Serve one demand or say why not; returns how many claims were granted."""
        until, _ = self._paused.get(demand.key, (0.0, 0.0))
        if until > self._clock() or self._refused.get(demand.key) == self._epoch():
            return 0
        nodes, reasons = self._nodes(demand, room)
        if not nodes:
            self._refused[demand.key] = self._epoch()
            metrics.DECISIONS.labels("no node").inc()
            notices.no_node(self._recorder, demand, _no_node(reasons))
            self._untie(demand)
            return 0
        policy = self._snapshot.management.policy(demand.claims[0])
        try:
            answer = allocate(
                self._snapshot.state,
                Demand(
                    demand.claims,
                    nodes,
                    excluded=self._exclusions.devices(),
                    tolerations=(_GUARD,),
                    seed=f"{demand.key}/{self._number}",
                ),
                strategy=Strategy(policy.strategy.value),
                prefer=self._idle,
            )
        except BrokenInput as error:
            self._refused[demand.key] = self._epoch()
            metrics.DECISIONS.labels("broken").inc()
            notices.broken(self._recorder, demand, error)
            return 0
        if isinstance(answer, Refusal):
            self._refused[demand.key] = self._epoch()
            metrics.DECISIONS.labels(answer.verdict).inc()
            notices.refused(self._recorder, demand, answer.explanation, self._named)
            self._untie(demand)
            return 0
        metrics.DECISIONS.labels("granted").inc()
        self._grant(demand, answer, room)
        return len(demand.claims)

    def _epoch(self) -> tuple[int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self._snapshot.room_epoch, self._exclusions.epoch()

    def _nodes(self, demand: Waiting, room: Room) -> tuple[frozenset[str], dict[str, int]]:
        """Return the nodes where the demand's pods could go, and what rules the others out."""
        unbound = [pod for pod in demand.pods if pod.node is None]
        fitting, against = room.fitting([pod for pod in unbound if self._promised(pod) is None])
        reasons = dict(against)
        allowed = set(fitting)
        for pod in demand.pods:
            if pod.node is not None:
                allowed &= {pod.node}
        for claim in demand.tied:
            allocation = self._snapshot.allocation(claim)
            selector = allocation.node_selector if allocation else None
            if selector is not None:
                allowed = {n for n in allowed if selector.matches(n, room.nodes[n].labels)}
                if not allowed:
                    reasons[f"claim {claim.key} is allocated elsewhere"] = len(room.nodes)
        avoid = self._exclusions.nodes([pod.uid for pod in unbound], self._snapshot.node) & allowed
        if avoid:
            reasons["kube-scheduler refused the node before"] = len(avoid)
        return frozenset(allowed - avoid), reasons

    def _grant(self, demand: Waiting, decision: Decision, room: Room) -> None:
        for pod in demand.pods:
            if pod.node is None and self._promised(pod) is None:
                room.take(decision.node, pod)
        pairs = list(zip(demand.claims, decision.allocations, strict=True))
        for claim, allocation in pairs:
            self._snapshot.assume(claim, allocation)
        self._spawn(self._write(demand, pairs))

    async def _write(self, demand: Waiting, pairs: list[tuple[Claim, Allocation]]) -> None:
        """Write one decision, claim by claim; what fails is forgotten and tried again after a pause."""
        for claim, allocation in pairs:
            try:
                version = await self._writer.allocate(claim, allocation)
            except Overtaken as error:
                _log.info("claim.overtaken", claim=claim.key, error=str(error))
                self._failed(demand, claim, "overtaken")
            except NotLeading:
                self._failed(demand, claim, "not leading")
            except ApiError as error:
                _log.warning("claim.write_failed", claim=claim.key, error=str(error))
                self._failed(demand, claim, "failed")
                notices.write_failed(self._recorder, claim, error)
            else:
                self._snapshot.ledger.written(claim.uid, version)
                self._written(demand, claim, allocation)

    def _written(self, demand: Waiting, claim: Claim, allocation: Allocation) -> None:
        metrics.ALLOCATIONS.labels("written").inc()
        seen = self._first_seen.get(demand.key)
        if seen is not None:
            metrics.ALLOCATION_SECONDS.observe(self._clock() - seen)
        notices.allocated(self._recorder, claim, allocation)
        _log.info("claim.allocated", claim=claim.key, node=allocation.node, devices=len(allocation.results))

    def _failed(self, demand: Waiting, claim: Claim, result: str) -> None:
        metrics.ALLOCATIONS.labels(result).inc()
        _, last = self._paused.get(demand.key, (0.0, 0.0))
        pause = min(last * 2 or _FIRST_PAUSE, _LONGEST_PAUSE)
        self._paused[demand.key] = (self._clock() + pause, pause)
        self._snapshot.forget(claim.uid)
        asyncio.get_running_loop().call_later(pause, self._window.ring)

    def _named(self, uid: str) -> str:
        claim = self._snapshot.claims.get(uid)
        return f"claim {claim.key}" if claim is not None else uid

    def _untie(self, demand: Waiting) -> None:
        """Give back what ties a demand to a node that cannot serve the rest of it, unless somebody reserved it."""
        for claim in demand.tied:
            if (
                claim.allocation is not None
                and not claim.reserved_for
                and claim.allocated_by == self._manager
            ):
                others = [p for p in self._snapshot.users(claim) if p.uid not in {q.uid for q in demand.pods}]
                if not any(pod.node is not None and not pod.finished for pod in others):
                    self._clear(claim, "the pod's other claims cannot be served on its node", "untied")

    # Tidying up. ------------------------------------------------------------------------------------------------

    def _ungate(self, pod: Pod) -> None:
        if pod.uid in self._ungating:
            return
        self._ungating.add(pod.uid)
        self._spawn(self._remove_gate(pod))

    async def _remove_gate(self, pod: Pod) -> None:
        try:
            await self._writer.ungate(pod)
        except NotLeading:
            self._ungating.discard(pod.uid)
        except ApiError as error:
            _log.info("pod.not_ungated", pod=pod.key, error=str(error))
            await asyncio.sleep(_FIRST_PAUSE)
            self._ungating.discard(pod.uid)
        else:
            metrics.UNGATED.inc()
            _log.info("pod.ungated", pod=pod.key)

    def _clear(self, claim: Claim, why: str, reason: str) -> None:
        if claim.uid in self._clearing:
            return
        self._clearing.add(claim.uid)
        self._spawn(self._clear_now(claim, why, reason))

    async def _clear_now(self, claim: Claim, why: str, reason: str) -> None:
        try:
            self._snapshot.clearing(claim.uid)
            if await self._writer.clear(claim):
                metrics.GIVE_BACKS.labels(reason).inc()
                notices.given_back(self._recorder, claim, why)
                _log.info("claim.given_back", claim=claim.key, why=why)
        except (NotLeading, BrokenInput):
            return
        except ApiError as error:
            _log.info("claim.not_given_back", claim=claim.key, error=str(error))
        finally:
            self._clearing.discard(claim.uid)

    def _failed_cuts(self) -> None:
        """Clear allocations whose partition could not be cut, as long as no pod is bound to them."""
        for partition in self._snapshot.partitions.values():
            holder = partition.spec.holder
            if partition.status.phase != Phase.FAILED or holder is None:
                continue
            claim = self._snapshot.claims.get(holder.uid)
            if claim is None or claim.allocation is None or claim.reserved_for:
                continue
            spec = partition.spec
            device = DeviceId(spec.driver, spec.pool, spec.device)
            if all(result.device != device for result in claim.allocation.results):
                continue  # it has got another placement already
            self._exclusions.refuse_device(device)
            self._clear(claim, f"partition {partition.metadata.name} could not be cut", "failed cut")

    def _release_finalizers(self) -> None:
        for claim in self._snapshot.claims_of(self._snapshot.claim_index.leaving):
            if OWN_FINALIZER in claim.finalizers and claim.allocation is None:
                self._spawn(self._release(claim))

    async def _release(self, claim: Claim) -> None:
        try:
            await self._writer.release(claim)
        except (ApiError, NotLeading) as error:
            _log.info("claim.not_released", claim=claim.key, error=str(error))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("cycle.task_failed", error=str(task.exception()), exc_info=task.exception())


def idle_partitions(snapshot: Snapshot) -> Iterator[DeviceId]:
    """Yield the devices whose partition is cut and held by nobody."""
    for partition in snapshot.partitions.values():
        spec, status = partition.spec, partition.status
        if (
            spec.holder is None
            and status.phase == Phase.IDLE
            and partition.metadata.deletion_timestamp is None
        ):
            yield DeviceId(spec.driver, spec.pool, spec.device)


def _no_node(reasons: dict[str, int]) -> str:
    parts = [f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]
    return "no node can take the pod: " + ("; ".join(parts) if parts else "there are no nodes")
