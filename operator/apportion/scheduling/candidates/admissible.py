"""Admissible: decisions that agents would prepare, as claims ask, and quotas allow.

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
from apportion.api.chosendevices import check_allocation, check_suitable, suiting, without_shares
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput, UnsuitableConfiguration
from apportion.quota.charge import first_attribute
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.shape import Shape
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.quota.admission import Admission

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
        except BrokenInput as error:
            demand = self.otherwise(demand, error)
            other = yield from choose(demand.asked)
            if other is None:
                raise
            decision = other
        chosen = yield from self._quotas.within(demand, decision, choose, shape)
        self.check(demand, chosen)
        return chosen

    def check(self, demand: WaitingDemand, decision: Decision) -> None:
        """Raise BrokenInput for devices that no agent would prepare together, or as their claim asks."""
        drivers, classes = self._snapshot.drivers, self._snapshot.state.classes
        for claim, allocation in zip(demand.claims, decision.allocations, strict=True):
            check_allocation(claim, allocation, drivers)
            check_suitable(claim, classes, allocation, drivers, self._type_of)

    def _type_of(self, device: DeviceId) -> str:
        found = self._snapshot.devices.device(device)
        return first_attribute(found, ("type",)) if found is not None else ""

    def otherwise(self, demand: WaitingDemand, error: BrokenInput) -> WaitingDemand:
        """Return the demand as one that does not get what `check` has refused: devices that do not suit its parameters, or shares."""
        drivers, classes = self._snapshot.drivers, self._snapshot.state.classes
        asked = tuple(suiting(claim, classes, drivers) for claim in demand.asked)
        if not isinstance(error, UnsuitableConfiguration):
            asked = tuple(without_shares(claim, drivers) for claim in asked)
        return replace(demand, asked=asked)
