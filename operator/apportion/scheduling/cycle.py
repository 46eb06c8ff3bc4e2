"""Cycle: the one task that acts.

In: the snapshot, woken by its changes. Out: written allocations, opened gates, cleared allocations, partitions. One
task needs no locks and cannot race itself; what it decided is assumed at once, written in the background, and forgotten
when the write fails.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import structlog

from apportion import metrics
from apportion.allocator.allocate import allocate
from apportion.allocator.batch import allocate_batch
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.score.strategy import Strategy
from apportion.api.partition import Phase
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.window import Window
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput
from apportion.scheduling import notices
from apportion.scheduling.candidates import candidates, no_node, promised, room_of
from apportion.scheduling.errands import Errands
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.foretold import foretold
from apportion.scheduling.gates import open_gates
from apportion.scheduling.giveback import GiveBack
from apportion.scheduling.overlaps import Overlap, overlaps
from apportion.scheduling.room import Room
from apportion.scheduling.together import MOST_TOGETHER, planned, whole
from apportion.scheduling.waiting import Mixed, Unknown, Waiting, waiting
from apportion.scheduling.writer import OWN_FINALIZER
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
        errands: Errands,
        partitions: Partitions,
        recorder: Recorder,
        window: Window,
        *,
        settings: CycleSettings,
        clock: Callable[[], float],
        manager: str,
    ) -> None:
        self._snapshot = snapshot
        self._errands = errands
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
        self._learnt: set[str] = set()
        """Demands that wait and whose wishes the allocator knows."""
        self._examined = -1
        """Slice epoch in which pools were last looked at for contradictions."""
        self._idle: dict[DeviceId, int] = {}
        """Live partitions that nobody uses: choosing one cuts nothing."""
        self._first_seen: dict[str, float] = {}
        self._overlaps: tuple[int, list[Overlap]] | None = None
        """What was found, and in which device epoch."""
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
            await self._errands.finished()

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
            room = room_of(self._snapshot)

            # 4. and 5. Decide one at a time; each decision is assumed before the next one is made.
            granted = 0
            plan = self._plan(demands, room)
            for demand in demands:
                granted += self._decide(demand, room, plan)

            # 6. Let go whose allocation the watch has shown, and give back what nobody wants.
            gated = list(open_gates(self._snapshot, contested=contested, phase=self._partitions.phase))
            self._errands.ungate(gated)
            for claim in self._give_back.due(self._snapshot):
                self._errands.clear(claim, "nobody wants it", "unwanted")
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
                self._errands.clear(loser, f"{overlap.what} was allocated twice", "overlap")
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
        self._learnt &= keys
        self._errands.keep(keys)

    def _plan(self, demands: list[Waiting], room: Room) -> dict[str, Decision]:
        """Place together what waits together; empty unless all of it fits, for otherwise the queue's order decides."""
        fresh = [
            one for one in demands if not self._errands.paused(one.key) and self._refused.get(one.key) is None
        ]
        policies = [self._snapshot.management.policy(demand.claims[0]) for demand in fresh]
        alike = all(policy.strategy == policies[0].strategy for policy in policies)
        if not (1 < len(fresh) == len(demands) <= MOST_TOGETHER and alike):
            return {}
        asked = []
        for demand in fresh:
            nodes, _ = candidates(demand, room, self._snapshot, self._exclusions)
            if not nodes:
                return {}
            asked.append(self._question(demand, nodes))
        try:
            answers = allocate_batch(
                self._snapshot.state,
                asked,
                strategy=Strategy(policies[0].strategy.value),
                prefer=self._idle,
                mix=foretold(policies[0].demand),
                orders=1,
                tries=0,
            )
        except BrokenInput:
            return {}
        return whole({demand.key: answer for demand, answer in zip(fresh, answers, strict=True)})

    def _question(self, demand: Waiting, nodes: frozenset[str]) -> Demand:
        return Demand(
            demand.claims,
            nodes,
            excluded=self._exclusions.devices(),
            tolerations=(_GUARD,),
            seed=f"{demand.key}/{self._number}",
        )

    def _decide(self, demand: Waiting, room: Room, plan: dict[str, Decision]) -> int:
        """Serve one demand or say why not; returns how many claims were granted."""
        if self._errands.paused(demand.key) or self._refused.get(demand.key) == self._epoch():
            return 0
        nodes, reasons = candidates(demand, room, self._snapshot, self._exclusions)
        if not nodes:
            self._refused[demand.key] = self._epoch()
            metrics.DECISIONS.labels("no node").inc()
            notices.no_node(self._recorder, demand, no_node(reasons))
            self._untie(demand)
            return 0
        policy = self._snapshot.management.policy(demand.claims[0])
        try:
            answer = planned(plan, demand.key, nodes) or allocate(
                self._snapshot.state,
                self._question(demand, nodes),
                strategy=Strategy(policy.strategy.value),
                prefer=self._idle,
                mix=foretold(policy.demand),
            )
            self._learn(demand, answer)
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

    def _learn(self, demand: Waiting, answer: Decision | Refusal) -> None:
        """Let the allocator know what was asked for, once per demand however often it is tried."""
        if answer.asked is not None and demand.key not in self._learnt:
            self._learnt.add(demand.key)
            self._snapshot.state.learn(answer.asked)

    def _epoch(self) -> tuple[int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self._snapshot.room_epoch, self._exclusions.epoch()

    def _grant(self, demand: Waiting, decision: Decision, room: Room) -> None:
        for pod in demand.pods:
            if pod.node is None and promised(pod, self._snapshot) is None:
                room.take(decision.node, pod)
        pairs = list(zip(demand.claims, decision.allocations, strict=True))
        for claim, allocation in pairs:
            self._snapshot.assume(claim, allocation)
        self._errands.write(demand, pairs, since=self._first_seen.get(demand.key))

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
                    self._errands.clear(
                        claim, "the pod's other claims cannot be served on its node", "untied"
                    )

    # Tidying up. ------------------------------------------------------------------------------------------------

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
            self._errands.clear(claim, f"partition {partition.metadata.name} could not be cut", "failed cut")

    def _release_finalizers(self) -> None:
        for claim in self._snapshot.claims_of(self._snapshot.claim_index.leaving):
            if OWN_FINALIZER in claim.finalizers and claim.allocation is None:
                self._errands.release(claim)


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
