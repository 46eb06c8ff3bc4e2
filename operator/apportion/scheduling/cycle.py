"""Cycle: the one task that acts.

In: the snapshot, woken by its changes. Out: written allocations, opened gates, cleared allocations, partitions. One
task needs no locks and cannot race itself; what it decided is assumed at once, written in the background, and forgotten
when the write fails.
"""

from collections.abc import Callable
from typing import Protocol

import structlog

from apportion import metrics
from apportion.allocator.nodeoutcomes import precompute
from apportion.api.contract import ALLOCATION_FINALIZER
from apportion.api.partition import Phase
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.window import Window
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.scheduling import notices
from apportion.scheduling.batch import MOST_TOGETHER
from apportion.scheduling.candidates import room_of
from apportion.scheduling.decider import Decider
from apportion.scheduling.errands import Errands
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.gates import open_gates
from apportion.scheduling.giveback import GiveBack
from apportion.scheduling.groups import Joint, Tangled, alone, bundled, joints
from apportion.scheduling.lingering import Lingering
from apportion.scheduling.overlaps import Overlap, overlaps
from apportion.scheduling.room import Room
from apportion.scheduling.together import Together
from apportion.scheduling.waiting import Mixed, Unknown, Waiting, waiting
from apportion.settings import CycleSettings

_log = structlog.get_logger()
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
        self._lingering = Lingering(snapshot, clock)
        self._decider = Decider(
            snapshot, errands, recorder, self._exclusions, self._lingering, clock=clock, manager=manager
        )
        self._together = Together(self._decider, clock)
        self._give_back = GiveBack(clock, manager=manager)
        self._manager = manager
        self._number = 0
        self._examined = -1
        """Slice epoch in which pools were last looked at for contradictions."""
        self._overlaps: tuple[int, list[Overlap]] | None = None
        """What was found, and in which device epoch."""
        self._last = clock()

    def age(self) -> float:
        """Seconds since the last pass began."""
        return self._clock() - self._last

    async def run(self) -> None:
        """Act until cancelled; writes that are under way are waited for."""
        # What was taken back while another replica acted was that one's doing, or its to note; containers run on.
        while self._snapshot.taken_back:
            self._lingering.note(self._snapshot.taken_back.popleft())
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
            room = room_of(self._snapshot)
            asked = bundled(demands, self._snapshot)
            self._decider.begin(
                self._number, [*(one.key for one in demands), *(one.key for one in joints(asked))]
            )
            self._together.begin(joints(asked))

            # 4. and 5. Decide one at a time; each decision is assumed before the next one is made.
            granted = 0
            last = alone(asked)[-MOST_TOGETHER:]
            for one in asked:
                if last and one is last[0]:
                    self._decider.plan(last, room)
                granted += self._serve(one, room)

            # 6. Let go whose allocation the watch has shown, and give back what nobody wants.
            gated = list(open_gates(self._snapshot, contested=contested, phase=self._partitions.phase))
            self._errands.ungate(gated)
            for claim in self._give_back.due(self._snapshot):
                self._errands.clear(claim, "nobody wants it", "unwanted")
            self._failed_cuts()
            self._release_finalizers()
            if not demands:
                precompute(self._snapshot.state)
        if granted:
            log.info("cycle.decided", granted=granted, waiting=len(demands))

    # What others did. -------------------------------------------------------------------------------------------

    def _note_take_backs(self) -> None:
        while self._snapshot.taken_back:
            event = self._snapshot.taken_back.popleft()
            self._lingering.note(event)
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
        self._errands.keep(demand.key for demand in demands)

    def _serve(self, asked: Waiting | Joint | Tangled, room: Room) -> int:
        """Decide for one; a defect of ours that it meets keeps nobody else waiting."""
        if isinstance(asked, Tangled):
            notices.tangled(self._recorder, asked)
            return 0
        try:
            if isinstance(asked, Joint):
                return self._together.decide(asked, room)
            return self._decider.decide(asked, room)
        except Exception:  # noqa: BLE001 - whatever it is, it is told, and others go on
            _log.exception("demand.defect", demand=asked.key)
            self._decider.refuse(asked.key, "defect")
            notices.defect(self._recorder, asked.demands if isinstance(asked, Joint) else (asked,))
            return 0

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
            if ALLOCATION_FINALIZER in claim.finalizers and claim.allocation is None:
                self._errands.release(claim)
