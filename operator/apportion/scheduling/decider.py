"""Decider: one demand at a time, served or told why not.

In: a demand, the room on nodes. Out: a decision that is assumed at once and on its way to the API server; or an Event. What was
refused is not asked again before something changed that may let it in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from apportion import metrics
from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import ladder_of
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand
from apportion.allocator.queue import Answer, allocate_queue
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.api.contract import GUARD
from apportion.api.partition import Phase
from apportion.api.policy import AllocationPolicySpec
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput
from apportion.scheduling import notices
from apportion.scheduling.batch import LEAST_TOGETHER, planned
from apportion.scheduling.candidates import candidates, coming, no_node
from apportion.scheduling.errands import Errands
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.foretold import foretold
from apportion.scheduling.lingering import Lingering
from apportion.scheduling.room import Room, amounts
from apportion.scheduling.waiting import Waiting

_GUARD = Toleration(key=GUARD, operator="Exists")
"""Keeps kube-scheduler off our devices; it is no obstacle to us."""


class Decider:
    """Decides for whoever waits."""

    def __init__(
        self,
        snapshot: Snapshot,
        errands: Errands,
        recorder: Recorder,
        exclusions: Exclusions,
        lingering: Lingering,
        *,
        clock: Callable[[], float],
        manager: str,
    ) -> None:
        self.snapshot = snapshot
        self.errands = errands
        self.recorder = recorder
        self.manager = manager
        self.idle: Mapping[DeviceId, int] = {}
        """Live partitions that nobody uses: choosing one cuts nothing."""
        self._exclusions = exclusions
        self._lingering = lingering
        self._clock = clock
        self._refused: dict[str, tuple[int, int, int]] = {}
        """Epoch in which a demand was last refused, by its key."""
        self._first_seen: dict[str, float] = {}
        self._learnt: set[str] = set()
        """Demands that wait and whose wishes the allocator knows."""
        self._plan: dict[str, Answer] = {}
        """What was found for demands that are placed together, by demand."""
        self._resting: frozenset[str] = frozenset()
        """Demands that sit this pass out, since a plan was made without them."""
        self._nowhere: dict[str, str] = {}
        """Why no node could take the pods of demands that a plan was made without."""
        self._attempt = 0

    def begin(self, attempt: int, keys: Iterable[str]) -> None:
        """Start a pass over the demands with these keys; all others are forgotten."""
        kept = frozenset(keys)
        now = self._clock()
        self._attempt = attempt
        self._first_seen = {key: self._first_seen.get(key, now) for key in kept}
        self._refused = {key: epoch for key, epoch in self._refused.items() if key in kept}
        self._learnt &= kept
        self._plan = {}
        self._resting = frozenset()
        self._nowhere = {}
        self.idle = dict.fromkeys(idle_partitions(self.snapshot), 1)

    def plan(self, demands: Sequence[Waiting], room: Room) -> None:
        """Place together what waits together, so that nobody goes without whom the queue's order would serve.

        To be called when these demands, in this order, are all that is still to be decided in this pass: nobody else may
        take what they are to get.
        """
        # What the clock ends meanwhile changes nothing in this pass, or it would take what others are to get.
        self._resting = frozenset(one.key for one in demands if self._sits_out(one.key))
        fresh = [one for one in demands if one.key not in self._resting]
        policies = [self.snapshot.management.policy(demand.claims[0]) for demand in fresh]
        if len(set(map(_view_of, policies))) != 1:
            return
        asked: dict[str, Demand] = {}
        for demand in fresh:
            question, reasons = self.ask(demand, room)
            if question is not None:
                asked[demand.key] = question
            else:
                self._nowhere[demand.key] = reasons
        if len(asked) < LEAST_TOGETHER:
            return
        policy = policies[0]
        try:
            answers = allocate_queue(
                self.snapshot.state,
                tuple(asked.values()),
                Terms(Strategy(policy.strategy.value), ladder=ladder_of(policy), mix=foretold(policy.demand)),
                prefer=self.idle,
            )
        except Exception:  # noqa: BLE001 - a defect: told where that demand is decided by itself
            return
        # A demand that no state could serve is told so where it is decided by itself.
        self._plan = {
            key: answer
            for key, answer in zip(asked, answers, strict=True)
            if not isinstance(answer, BrokenInput)
        }

    def decide(self, demand: Waiting, room: Room) -> int:
        """Serve one demand or say why not; returns how many claims were granted."""
        if demand.key in self._resting or self._sits_out(demand.key):
            return 0
        nowhere = self._nowhere.get(demand.key)
        asked, reasons = self.ask(demand, room) if nowhere is None else (None, nowhere)
        if asked is None:
            self.refuse(demand.key, "no node")
            notices.no_node(self.recorder, demand, reasons)
            self._untie(demand)
            return 0
        policy = self.snapshot.management.policy(demand.claims[0])
        try:
            answer = planned(self._plan, demand.key, asked.nodes or frozenset()) or allocate(
                self.snapshot.state,
                asked,
                Terms(Strategy(policy.strategy.value), ladder=ladder_of(policy), mix=foretold(policy.demand)),
                prefer=self.idle,
            )
        except BrokenInput as error:
            self.refuse(demand.key, "broken")
            notices.broken(self.recorder, demand, error)
            return 0
        self.learn(demand, answer)
        if isinstance(answer, Refusal):
            self.refuse(demand.key, answer.verdict)
            notices.refused(self.recorder, demand, answer.explanation, self.named)
            self._untie(demand)
            return 0
        self.grant(demand, answer, room)
        return len(demand.claims)

    def ask(self, demand: Waiting, room: Room) -> tuple[Demand | None, str]:
        """Return what to ask of the allocator; None, and why, if no node could take the pods."""
        nodes, reasons = candidates(demand, room, self.snapshot, self._exclusions, self._lingering)
        if not nodes:
            return None, no_node(reasons)
        pods = coming(demand, self.snapshot)
        asked = Demand(
            demand.claims,
            nodes,
            excluded=self._exclusions.devices(),
            tolerations=(_GUARD,),
            host=HostDemand(amounts(pods), room.taken) if pods else None,
            seed=f"{demand.key}/{self._attempt}",
        )
        return asked, ""

    def learn(self, demand: Waiting, answer: Decision | Refusal) -> None:
        """Let the allocator know what was asked for, once per demand however often it is tried."""
        if answer.asked is not None and demand.key not in self._learnt:
            self._learnt.add(demand.key)
            self.snapshot.state.learn(answer.asked, amounts(demand.pods) if demand.pods else None)

    def grant(self, demand: Waiting, decision: Decision, room: Room) -> None:
        """Assume a decision and have it written."""
        metrics.DECISIONS.labels("granted").inc()
        for pod in coming(demand, self.snapshot):
            room.take(decision.node, pod)
        pairs = list(zip(demand.claims, decision.allocations, strict=True))
        for claim, allocation in pairs:
            self.snapshot.assume(claim, allocation)
        self.errands.write(demand, pairs, since=self._first_seen.get(demand.key))

    def refuse(self, key: str, verdict: str) -> None:
        """Remember that a demand cannot be served as things stand."""
        self._refused[key] = self._epoch()
        metrics.DECISIONS.labels(verdict).inc()

    def refused_lately(self, key: str) -> bool:
        """Say whether a demand was refused and nothing happened since that may let it in."""
        return self._refused.get(key) == self._epoch()

    def _sits_out(self, key: str) -> bool:
        return self.errands.paused(key) or self.refused_lately(key)

    def named(self, uid: str) -> str:
        """Return a claim's name for people."""
        claim = self.snapshot.claims.get(uid)
        return f"claim {claim.key}" if claim is not None else uid

    def _epoch(self) -> tuple[int, int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self.snapshot.room_epoch, self._exclusions.epoch(), self._lingering.epoch()

    def _untie(self, demand: Waiting) -> None:
        """Give back what ties a demand to a node that cannot serve the rest of it, unless somebody reserved it."""
        for claim in demand.tied:
            if claim.allocation is not None and not claim.reserved_for and claim.allocated_by == self.manager:
                others = [p for p in self.snapshot.users(claim) if p.uid not in {q.uid for q in demand.pods}]
                if not any(pod.node is not None and not pod.finished for pod in others):
                    self.errands.clear(claim, "the pod's other claims cannot be served on its node", "untied")


def _view_of(policy: AllocationPolicySpec) -> tuple[object, ...]:
    """Return what of a policy the allocator is told."""
    return policy.strategy, ladder_of(policy), foretold(policy.demand)


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
