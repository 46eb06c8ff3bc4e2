"""Planner: the last demands of the queue, placed together (ADR 0011).

In: the demands that are all that is still to be decided in a pass, the capacity of nodes. Out: for each an answer to
follow when its turn comes, as long as its node still has the room; or nothing, and they are decided one by one.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence

import structlog

from apportion import metrics
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.queue import LEAST_TOGETHER, Answer, queue_steps
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.asking import Asking
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.candidates.searchturns import SearchStopped, SearchTurns
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.pace import Pace
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.neighbours import are_related

_log = structlog.get_logger()
RELATED = 32
"""As many demands as one counts for that takes a look at all nodes: its pods ask something of those beside them, or of volumes."""


class Planner:
    """The plan of one pass."""

    def __init__(self, snapshot: Snapshot, candidates: Candidates, turns: SearchTurns) -> None:
        self._snapshot = snapshot
        self._candidates = candidates
        self._asking = Asking(snapshot, candidates, turns)
        self._answers: dict[str, Answer] = {}
        self._resting: frozenset[str] = frozenset()
        self._no_node: dict[str, str] = {}
        """Why no node could take the pods of demands that the plan leaves out, by demand."""

    def begin(self) -> None:
        """Start a pass without a plan."""
        self._answers, self._no_node, self._resting = {}, {}, frozenset()

    def plan(
        self,
        demands: Sequence[WaitingDemand],
        capacity: HostCapacity,
        rests: Callable[[str], bool],
        allows: Callable[[Mapping[str, Decision]], bool] = lambda _: True,
        late: Collection[str] = (),
    ) -> Iterator[None]:
        """Place these demands together; `rests` tells which (by key) back off and are left out. Yields while nodes are searched; there is no plan if something changes while they are placed.

        `late`: those (by key) that are left out, too, and are decided by themselves at their turn. A plan whose decisions (by key) `allows` refuses is dropped: what it gives one demand too much would be refused to others.

        To be called when these demands, in this order, are all that is still to be decided in this pass: no other demand
        may take what the plan gives them. A defect is logged and counted, and leaves no plan.
        """
        # Freeze who is backing off for this pass: a timer that ends mid-pass must not admit a demand that the plan
        # ignored, or that demand would take what the plan gives to others.
        self._resting = frozenset(demand.key for demand in demands if rests(demand.key))
        left_out = self._resting.union(late)
        try:
            self._answers = yield from self._together(
                [demand for demand in demands if demand.key not in left_out], capacity
            )
            chosen = {key: answer for key, answer in self._answers.items() if isinstance(answer, Decision)}
            if not allows(chosen):
                self.begin()
        except Exception:  # noqa: BLE001 - whatever it is, it is logged, and demands are decided one by one
            _log.exception("plan.defect", demands=len(demands))
            metrics.DECISIONS.labels("defect").inc()

    def rests(self, key: str) -> bool:
        """Say whether a demand backed off when the plan was made: it is not decided in this pass."""
        return key in self._resting

    def is_broken_by(self, key: str, decision: Decision) -> bool:
        """Say whether a demand (its key) gets something else than the plan says: what that gives to others may not be free any more."""
        return bool(self._answers) and self._answers.get(key) is not decision

    def no_node(self, key: str) -> str | None:
        """Return why no node could take a demand's pods when the plan was made; None if one could."""
        return self._no_node.get(key)

    def reopen(self) -> None:
        """Note that devices became free that the plan gave to nobody: those that it refuses are decided by themselves."""
        self._answers = {
            key: answer for key, answer in self._answers.items() if not isinstance(answer, Refusal)
        }

    def note_unserved(self, key: str) -> None:
        """Note that a demand (its key) got nothing at its turn: what the plan gives to it is free."""
        if isinstance(self._answers.pop(key, None), Decision):
            self.reopen()

    def knows(self, key: str) -> bool:
        """Say whether the plan has an answer for a demand, so that nobody is asked about it."""
        return key in self._answers

    def answer(self, key: str, nodes: frozenset[str]) -> Answer | None:
        """Return the planned answer for a demand that could go to these nodes; None: decide it by itself."""
        return planned(self._answers, key, nodes)

    def _together(
        self, demands: Sequence[WaitingDemand], capacity: HostCapacity
    ) -> Generator[None, None, dict[str, Answer]]:
        if len(demands) < LEAST_TOGETHER:
            return {}
        managed = self._snapshot.managed
        policies = {terms_of(managed.policy(demand.claims[0])) for demand in demands}
        if len(policies) != 1:
            return {}
        (terms,) = policies
        asked = yield from self._asking.undisturbed(self._asked(demands, capacity))
        if asked is None:
            return self._dropped()
        seen, stopped = self._asking.seen(), set[str]()
        for demand in demands:
            if demand.key in asked:
                try:
                    yield from self._asking.search(demand, asked[demand.key], terms)
                except SearchStopped:
                    stopped.add(demand.key)
        if self._asking.seen() != seen:
            current = [each for each in demands if is_current(each, self._snapshot)]
            asked = yield from self._asking.undisturbed(self._asked(current, capacity))
            if asked is None:
                return self._dropped()
        asked = {key: each for key, each in asked.items() if key not in stopped}
        if len(asked) < LEAST_TOGETHER:
            return {}
        steps = queue_steps(self._snapshot.state, tuple(asked.values()), terms, prefer=self._candidates.idle)
        answers = yield from self._asking.undisturbed(steps)
        if answers is None:
            return self._dropped()
        # A demand that no state could serve gets its error when it is decided by itself.
        return {
            key: answer
            for key, answer in zip(asked, answers, strict=True)
            if not isinstance(answer, BrokenInput)
        }

    def _dropped(self) -> dict[str, Answer]:
        """Forget what something that changed has made out of date; returns no answers."""
        self._no_node = {}
        return {}

    def _asked(
        self, demands: Iterable[WaitingDemand], capacity: HostCapacity
    ) -> Generator[None, None, dict[str, Demand]]:
        """Return what to ask about each demand; yields where others may run. What changes meanwhile makes it out of date."""
        asked, pace = dict[str, Demand](), Pace()
        self._no_node = {}
        for demand in demands:
            looks = are_related(demand.pods) or any(pod.volumes for pod in demand.pods)
            if pace.rests(RELATED if looks else 1):
                yield
            demand_or_reason = self._candidates.ask(demand, capacity)
            if isinstance(demand_or_reason, str):
                self._no_node[demand.key] = demand_or_reason
            else:
                asked[demand.key] = demand_or_reason
        return asked


def planned(plan: dict[str, Answer], key: str, nodes: frozenset[str]) -> Answer | None:
    """Return what was planned for a demand; drop the whole plan if its node has no room for the pods any more."""
    answer = plan.get(key)
    if isinstance(answer, Decision) and answer.node not in nodes:
        plan.clear()
        return None
    return answer
