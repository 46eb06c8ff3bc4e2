"""Admissible: decisions that agents would prepare and quotas allow.

In: a demand, the decision of the allocator for it. Out: the decision, or another one for devices with which it is admissible; or an
exception, where there is none.
"""

from collections.abc import Callable, Generator
from dataclasses import replace

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.finished import finished
from apportion.allocator.terms import Terms
from apportion.api.claimconfig import check_allocation, without_shares
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling.candidates import Candidates
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.shape import Shape
from apportion.scheduling.waiting import WaitingDemand

Search = Callable[[Demand, Terms], Generator[None, None, Demand | None]]
"""Searches the nodes that the allocator will search for a demand; returns what to ask of it then, None where no node is left."""


def _at_once(asked: Demand, _terms: Terms) -> Generator[None, None, Demand]:
    """Leave the search to the allocator."""
    yield from ()
    return asked


class Admissible:
    """Looks for an admissible decision."""

    def __init__(self, snapshot: Snapshot, candidates: Candidates, quotas: Admission) -> None:
        self._snapshot = snapshot
        self._candidates = candidates
        self._quotas = quotas

    def of(
        self, demand: WaitingDemand, asked: Demand, terms: Terms, decision: Decision, shape: Shape | None
    ) -> Decision:
        """Return the result of `steps`, where all nodes are searched in one of them."""
        return finished(self.steps(demand, asked, terms, decision, shape, _at_once))

    def steps(
        self,
        demand: WaitingDemand,
        asked: Demand,
        terms: Terms,
        decision: Decision,
        shape: Shape | None,
        search: Search,
    ) -> Generator[None, None, Decision]:
        """Return the decision, or another one that is admissible; yields while nodes are searched for that.

        `asked`: what the allocator was asked. `shape`: of the demand as it is written. Raises BrokenInput (no agent would prepare it),
        OverLimit, and what `search` does.
        """

        def choose(claims: tuple[Claim, ...]) -> Generator[None, None, Decision | None]:
            less = yield from search(replace(asked, claims=claims), terms)
            if less is None:
                return None
            return decide(self._snapshot.state, less, terms, prefer=self._candidates.idle)

        try:
            self.check(demand, decision)
        except BrokenInput:
            other = yield from choose(self.without_shares(demand).asked)
            if other is None:
                raise
            decision = other
        chosen = yield from self._quotas.within(demand, decision, choose, shape)
        self.check(demand, chosen)
        return chosen

    def check(self, demand: WaitingDemand, decision: Decision) -> None:
        """Raise BrokenInput for devices that no agent would prepare together."""
        for claim, allocation in zip(demand.claims, decision.allocations, strict=True):
            check_allocation(claim, allocation, self._snapshot.drivers)

    def without_shares(self, demand: WaitingDemand) -> WaitingDemand:
        """Return the demand as one that gets no shares."""
        drivers = self._snapshot.drivers
        return replace(demand, asked=tuple(without_shares(claim, drivers) for claim in demand.asked))
