"""Decisions: what the operator would decide about a demand now.

In: a snapshot, demands. Out: a decision, or why there is none, in the texts of the operator's Events. The same code decides as in the
operator: candidates, quotas, the allocator, what agents would prepare, and what is held beside allocations (DeviceHolds). What the operator remembers and the
API does not show is not known here: nodes that are left out for a while, pauses after a failure, cpu and memory that are kept for the first of the queue, and what it
has learnt of demand in the past. It is as if a replica had just begun to act: that one has learnt what waits now.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.preparation import Preparation, is_costly
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.terms import Terms
from apportion.api.hold import DeviceHold
from apportion.cli.answers.groupanswers import GroupAnswers
from apportion.cli.answers.usableholds import UsableHolds
from apportion.cli.world.holds import Holds, said
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.admissible import Admissible
from apportion.scheduling.candidates.candidates import TOLERATIONS, Candidates
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.demands.extendedresources import is_left, left_of
from apportion.scheduling.demands.guardedclaims import GuardedClaim, guarded_classes
from apportion.scheduling.demands.podneeds import requested
from apportion.scheduling.demands.waiting import Unservable, WaitingDemand
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from apportion.scheduling.events import events, unservedevents
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.overlimit import EXCEEDS_LIMIT, OverLimit
from apportion.scheduling.room.noderoom import unplaced
from apportion.settings import CycleSettings

DEVICES_HELD = "DevicesHeld"
"""The reason of what would be served if devices were not held for others."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why there is no decision."""

    name: str
    """One word, the reason of the operator's Event about a claim."""
    text: str
    refusal: Refusal | None = None
    """What the allocator found, where it was asked."""
    over: OverLimit | None = None
    """The limit of a quota that is too low."""
    held: tuple[DeviceHold, ...] = ()
    """What is held from it, of DevicesHeld; else what is held for it."""


class Decisions:
    """Decides demands one after the other; what was granted stays taken."""

    def __init__(
        self,
        snapshot: Snapshot,
        holds: Holds,
        queue: WaitingQueue | None = None,
        learnt: set[str] | None = None,
    ) -> None:
        """`queue` follows the snapshot already; `learnt` has the demands (keys) that its allocator knows, and is kept up to date."""
        self.snapshot = snapshot
        self._holds = holds
        self._usable = UsableHolds(snapshot, holds, time.time)
        exclusions, late = Exclusions(time.monotonic), StillPrepared(snapshot, time.monotonic)
        self.candidates = Candidates(snapshot, exclusions, late)
        self._event = _LastEvent()
        self._quotas = Admission(snapshot, self._event, time.monotonic)
        self._quotas.charging.follow()
        self._admissible = Admissible(snapshot, self.candidates, self._quotas)
        self.waiting, self.unserved = (queue or WaitingQueue(snapshot)).demands()
        """What waited at first, in queue order; and what could not be served as it was."""
        learnt = set() if learnt is None else learnt
        for waiting in self.waiting:
            if waiting.key not in learnt:
                self._learn(waiting)
        learnt.clear()
        learnt.update(waiting.key for waiting in self.waiting)

    def decide(self, demand: WaitingDemand) -> Decision | Reason:
        """Return the decision about a demand, or why there is none."""
        costly = self._costly(demand)
        if costly is not None:
            return costly
        try:
            return self._decide(self._quotas.check(demand))
        except OverLimit as found:
            return Reason(EXCEEDS_LIMIT, str(found), over=found)
        except BrokenInput as error:
            events.broken(self._event, demand, error)
            return self._event.take()

    def decide_in_group(self, demand: WaitingDemand) -> Decision | Reason:
        """Return the decision about a demand beside the others of its group, if it has one: they are served together or not at all."""
        answer = self.decide(demand)
        if isinstance(answer, Reason) or not demand.members:
            return answer
        for each in self.waiting:
            # Of its group, whose pods are decided about together.
            if each.members.keys() & demand.members.keys() and (costly := self._costly(each)) is not None:
                return costly
        groups = GroupAnswers(self.snapshot, self.candidates, self._quotas, self._event)
        try:
            with self._holds.lifted(self._usable.by(demand)):
                return groups.of(demand, self.waiting) or self._event.take()
        except OverLimit as found:
            return Reason(EXCEEDS_LIMIT, str(found), over=found)
        except BrokenInput as error:
            events.broken(self._event, demand, error)
            return self._event.take()

    def _costly(self, demand: WaitingDemand) -> Reason | None:
        """Return that a demand's selectors cost more than one claim may spend, as the operator finds out beforehand; None: they do not."""
        state = self.snapshot.state
        try:
            query = state.queries.of(demand.asked, state.classes, state.features, TOLERATIONS)
            if not is_costly(state, query):
                return None
        except BrokenInput:
            return None  # deciding says so
        preparation = Preparation(state, query, CycleSettings().selectors)
        for work in preparation.steps():
            if work is not None:
                work()
        if preparation.excess is None:
            return None
        error = preparation.excess.as_broken_input(NamedQuery.of(query, demand.asked).names)
        return self.reason_of(partial(events.costly, demand=demand, error=error))

    def ask(self, demand: WaitingDemand) -> Demand | str:
        """Return what is asked of the allocator, or why no node could take the pods."""
        return self.candidates.ask(demand, self.candidates.capacity())

    def _decide(self, demand: WaitingDemand) -> Decision | Reason:
        asked = self.ask(demand)
        if isinstance(asked, str):
            events.not_allocated(self._event, demand, asked + self._quotas.note(demand))
            return self._event.take()
        terms = terms_of(self.snapshot.managed.policy(demand.claims[0]))
        answer, usable = self._without((), demand, asked, terms), self._usable.by(demand)
        if usable and isinstance(answer, Refusal):
            # What it may use is not what keeps it waiting.
            answer = self._without(usable, demand, asked, terms)
        if isinstance(answer, Decision):
            return answer
        held = self._held_from(demand, asked, terms, usable, answer)
        if held is not None:
            return held
        note = self._quotas.note(demand)
        events.refused(self._event, demand, answer.explanation, self.snapshot, note)
        return self._event.take(answer, self._usable.own(demand))

    def _held_from(
        self,
        demand: WaitingDemand,
        asked: Demand,
        terms: Terms,
        usable: Sequence[DeviceHold],
        refusal: Refusal,
    ) -> Reason | None:
        """Return why a demand waits, if it is for devices that are held; None: it would without them, too."""

        def node_without(holds: Sequence[DeviceHold]) -> str | None:
            with self._holds.lifted([*usable, *holds]):
                found = decide(self.snapshot.state, asked, terms, prefer=self.candidates.idle)
                return self._admissible.of(demand, asked, terms, found, None).node if found else None

        blocking = [each for each in self._holds.found.values() if each not in usable]
        node = node_without(blocking) if blocking else None
        if node is None:
            return None
        for each in blocking[:]:
            # Each that keeps nothing from it is not named.
            fewer = [other for other in blocking if other is not each]
            less = node_without(fewer) if fewer else None
            if less is not None:
                blocking, node = fewer, less
        text = (
            f"claim {demand.claims[0].key} would fit on node {node}, but devices are held there:"
            f" {'; '.join(map(said, blocking))}"
        )
        return Reason(DEVICES_HELD, text, refusal, held=tuple(blocking))

    def _without(
        self, holds: Sequence[DeviceHold], demand: WaitingDemand, asked: Demand, terms: Terms
    ) -> Decision | Refusal:
        """Return what the allocator says if some devices were not held."""
        with self._holds.lifted(holds):
            answer = allocate(self.snapshot.state, asked, terms, prefer=self.candidates.idle)
            if isinstance(answer, Decision):
                return self._admissible.of(demand, asked, terms, answer, None)
            return answer

    def could_serve(self, asked: Demand, policy_of: WaitingDemand) -> Decision | None:
        """Return the decision about what the allocator is asked, whatever quotas say; None: there is none."""
        terms = terms_of(self.snapshot.managed.policy(policy_of.claims[0]))
        try:
            return decide(self.snapshot.state, asked, terms, prefer=self.candidates.idle)
        except BrokenInput:
            return None

    def grant(self, demand: WaitingDemand, decision: Decision) -> None:
        """Count the devices of a decision as taken, and its pods as on their node."""
        capacity = self.candidates.capacity()
        for pod in unplaced(demand, self.snapshot):
            capacity.take(decision.node, pod)
        for claim, allocation in zip(demand.claims, decision.allocations, strict=True):
            self.snapshot.assume(claim, allocation)
        self._learn(demand)

    def _learn(self, demand: WaitingDemand) -> None:
        """Let the allocator learn what is asked for; what is broken teaches nothing."""
        state = self.snapshot.state
        try:
            query = state.queries.of(demand.asked, state.classes, state.features, TOLERATIONS)
        except BrokenInput:
            return
        state.learn(query, requested(demand.pods) if demand.pods else None)

    def unservable(self, found: Unservable) -> Reason:
        """Return why a claim or pod cannot be served as it is."""
        return self.reason_of(partial(events.unservable, found=found))

    def left(self, pod: Pod) -> Reason | None:
        """Return why nobody serves a pod that asks for an extended resource of our devices; None: it asks for none, or has its node."""
        if not is_left(pod, self.snapshot.managed):
            return None
        return self.reason_of(
            partial(unservedevents.extended_resource, left=next(left_of(pod, self.snapshot, {})))
        )

    def unmanaged(self, claim: Claim) -> Reason | None:
        """Return why nobody serves a claim of other classes that select our devices; None: kube-scheduler may allocate them."""
        classes = guarded_classes(claim, self.snapshot)
        if not classes:
            return None
        return self.reason_of(partial(unservedevents.unmanaged_class, found=GuardedClaim(claim, (), classes)))

    def reason_of(self, tell: Callable[[Recorder], None]) -> Reason:
        """Return what an Event says."""
        tell(self._event)
        return self._event.take()


class _LastEvent(Recorder):
    """Keeps the text of the last Event instead of writing it."""

    def __init__(self) -> None:  # the base class would need a client
        self._last: tuple[str, str] = ("", "")

    def normal(self, about: About, reason: str, text: str) -> None:
        """Nothing that went well is kept."""

    def warning(self, about: About, reason: str, text: str) -> None:  # noqa: ARG002 - the object is known to the caller
        """Keep reason and text; those about claims come first, and those about pods say the same."""
        if not self._last[0]:
            self._last = reason, text

    def take(self, refusal: Refusal | None = None, own: Sequence[DeviceHold] = ()) -> Reason:
        """Return what was recorded since the last call."""
        (name, text), self._last = self._last, ("", "")
        return Reason(name, text, refusal, held=tuple(own))


def joined(demands: Sequence[WaitingDemand]) -> WaitingDemand:
    """Return one demand of several: one node has to serve them all."""
    return WaitingDemand(
        claims=tuple(claim for each in demands for claim in each.claims),
        pods=tuple({pod.uid: pod for each in demands for pod in each.pods}.values()),
        tied=tuple(claim for each in demands for claim in each.tied),
        asked=tuple(claim for each in demands for claim in each.asked),
    )
