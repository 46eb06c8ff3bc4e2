"""Serving: gives those for which pods were evicted what they wait for, as soon as it is free.

In: preemptions, the capacity of nodes. Out: decisions, assumed and being written, with their devices kept until the watch shows them. A group gets
all that it needs at once, wherever it is free, or nothing.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from apportion.allocator.allocate import catching_up, decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.terms import Terms
from apportion.errors import BrokenInput
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecision import GroupDecision
from apportion.scheduling.demands.groups import Queued
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.preemption.evictions import Looked, Preemption
from apportion.scheduling.preemption.preemptor import current_group
from apportion.scheduling.preemption.reservation import Reservation
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.room.hostcapacity import HostCapacity

_ELSEWHERE = 1.0
"""Seconds after which one is decided about though nothing changed on its node: quotas, and what rules nodes out, have changed, perhaps."""
_LONGEST = 0.1
"""Seconds of a pass for which nodes are searched for them; the next one goes on."""


class Serving:
    """Serves one preemption at a time."""

    def __init__(
        self, decider: Decider, is_begun: Callable[[Queued], bool], clock: Callable[[], float]
    ) -> None:
        """`is_begun`: whether the queue is deciding about a group."""
        self._decider = decider
        self._snapshot = decider.snapshot
        self._is_begun = is_begun
        self._clock = clock
        self._searched = 0.0
        """Seconds for which nodes were searched in this pass."""
        self.go_on = False
        """Whether the next pass goes on with a search."""

    def begin(self) -> None:
        """Start a pass: look at what changed."""
        self._searched, self.go_on = 0.0, False
        self._decider.reservations.nodes.follow()

    def is_due(self, preemption: Preemption) -> bool:
        """Say whether one is to be decided about: something changed that may serve it, and it may be asked about."""
        snapshot, nodes = self._snapshot, self._decider.reservations.nodes
        now = Looked(
            (snapshot.device_epoch, snapshot.retry_epoch, snapshot.changes.hosts.end),
            nodes.others_end,
            self._clock(),
        )
        if not self._changed(preemption, now) or not self._may_be_asked(preemption):
            return False
        preemption.looked = now
        return True

    def _changed(self, preemption: Preemption, now: Looked) -> bool:
        """Say whether something changed: for a group anywhere; else on the node where devices are kept, or a while ago."""
        last = preemption.looked
        if last is None or (preemption.preemptor.group is not None and last.epochs != now.epochs):
            return True
        if last.epochs == now.epochs:
            return False
        changed = self._decider.reservations.nodes.by_others_since(last.seen)
        elsewhere = changed is not None and changed.isdisjoint(preemption.reservation.nodes)
        return not elsewhere or now.at - last.at >= _ELSEWHERE

    def _may_be_asked(self, preemption: Preemption) -> bool:
        """Say whether some still wait, do so as they did, and nothing that was written for them has just failed.

        The queue may have served them by other devices meanwhile: decided anew, these would be free while they are being written.
        """
        waiting = [
            member
            for member in preemption.preemptor.members
            if self._snapshot.allocation(member.claims[0]) is None
        ]
        return bool(waiting) and all(
            is_current(member, self._snapshot) and not self._decider.writes.paused(member.key)
            for member in waiting
        )

    def serve(self, preemption: Preemption, capacity: HostCapacity) -> Generator[None, None, bool]:
        """Serve one if its devices are free; says whether it can have been in vain: its scheduler refused the node. Yields while its node is searched."""
        if preemption.preemptor.group is not None:
            self._serve_group(preemption, capacity)
            return True
        # Asked as when victims were chosen: without alternatives that its guarantee does not cover.
        demand = replace(preemption.demand, asked=preemption.asked)
        terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
        try:
            here = self._here(preemption, demand, capacity)
            if isinstance(here, Demand):
                for _ in self._search(preemption, demand, here, terms):
                    yield
                    if preemption.given_up or not self._may_be_asked(preemption):
                        preemption.looked = None
                        break
                if preemption.looked is None:
                    return True
                here = self._here(preemption, demand, capacity)
            if isinstance(here, bool):
                return here
            return self._serve_demand(preemption, demand, here, terms, capacity)
        except (BrokenInput, OverLimit):
            return True  # the walk through the queue meets it again, and says so

    def _here(self, preemption: Preemption, demand: WaitingDemand, capacity: HostCapacity) -> Demand | bool:
        """Return what to ask about the nodes where devices are kept; or, where these do not suit it, whether it can have been in vain. Raises OverLimit."""
        self._decider.quotas.check(demand)
        asked, nodes = self._decider.reservations.ask(demand, capacity), preemption.reservation.nodes
        if isinstance(asked, str) or not nodes & (asked.nodes or frozenset()):
            return not preemption.granted or isinstance(asked, str)
        return replace(asked, nodes=nodes)

    def _search(
        self, preemption: Preemption, demand: WaitingDemand, here: Demand, terms: Terms
    ) -> Iterator[None]:
        """Search these nodes in steps, and yield after each; where that takes too long for a pass it is to be looked at in the next one. Raises BrokenInput."""
        left, prefer = len(here.nodes or ()), self._decider.candidates.idle
        while left:
            if self._searched >= _LONGEST:
                preemption.looked, self.go_on = None, True
                return
            began = self._clock()
            with self._lifted(preemption, demand):
                # Nothing is lifted between two steps: each begins anew with what was kept of those before.
                is_paused = next(catching_up(self._snapshot.state, here, terms, prefer=prefer), None)
            self._searched += self._clock() - began
            if is_paused is None:
                return
            left -= not is_paused
            yield

    @contextmanager
    def _lifted(self, preemption: Preemption, demand: WaitingDemand) -> Iterator[None]:
        """Let one be asked about what is kept for it."""
        with self._decider.reservations.lifted(demand), preemption.reservation.lifted():
            yield

    def _serve_demand(
        self,
        preemption: Preemption,
        demand: WaitingDemand,
        here: Demand,
        terms: Terms,
        capacity: HostCapacity,
    ) -> bool:
        decider = self._decider
        with self._lifted(preemption, demand):
            found = decide(self._snapshot.state, here, terms, prefer=decider.candidates.idle)
            if found is None:
                return True
            decision = decider.admissible.of(demand, here, terms, found, None)
        self._keep(preemption, (demand, decision))
        decider.learn(demand, decision)
        decider.grant(demand, decision, capacity)
        return True

    def _serve_group(self, preemption: Preemption, capacity: HostCapacity) -> None:
        members = [
            member
            for member in preemption.preemptor.parts(preemption.asked)
            if all(self._snapshot.allocation(claim) is None for claim in member.claims)
        ]
        group = current_group(members, self._snapshot)
        if group is None or self._is_begun(group):
            return
        decision = GroupDecision(group, self._decider, capacity)
        with preemption.reservation.lifted():
            for _ in decision:
                pass  # without a pause: others would take what is kept
        if decision.granted:
            self._keep(preemption, *decision.decided)

    def _keep(self, preemption: Preemption, *rows: tuple[WaitingDemand, Decision]) -> None:
        """Keep what was decided until the watch shows it: the write may fail, and then it is decided again."""
        preemption.reservation.release()
        preemption.reservation = Reservation(self._snapshot.state, preemption.demand.key, rows)
        preemption.granted = True
