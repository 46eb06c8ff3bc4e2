"""HostComparison: scores of nodes that are short of cpu or memory, for one demand.

In: a demand with the cpu and memory that its pods request. Out: scores that include the device value which the demand
would strand. Used under LeastFragmentation only; nodes with enough of both are compared by devices alone.
"""

from collections.abc import Set as AbstractSet

from apportion.allocator.facts.host import HostDemand
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import Contention, Score, Solved
from apportion.allocator.state import State


class HostComparison:
    """The nodes concerned, and their scores."""

    __slots__ = (
        "_host",
        "_query",
        "_scarcity",
        "_state",
        "_stranding",
        "nodes",
        "requested",
        "taken",
        "version",
    )

    def __init__(
        self, state: State, query: Query, host: HostDemand, stranding: Stranding, scarcity: Scarcity
    ) -> None:
        self._state = state
        self._query = query
        self._host = host
        self._stranding = stranding
        self._scarcity = scarcity
        self.requested = host.requested
        self.taken = host.taken
        """Amounts by node, taken in addition to what the state knows."""
        self.nodes: AbstractSet[str] = state.host_constrained_nodes(stranding, host, query)
        """Nodes that cannot be compared by devices alone."""
        self.version = stranding.version, len(scarcity.host_places.kinds)
        """Another number: all scores may differ."""

    def lasting(self) -> "HostComparison":
        """Return the comparison without the amounts that only this demand takes into account."""
        if not self.taken:
            return self
        return HostComparison(
            self._state, self._query, HostDemand(self.requested), self._stranding, self._scarcity
        )

    def contention(self, name: str, outcome: Solved) -> Contention:
        """Return the contention with the places that the outcome takes there, cpu and memory included."""
        left = self._state.hosts.left_for(name, self._host) if name in self.nodes else None
        if left is None:
            return outcome.contention
        return self._scarcity.with_host(outcome.contention, name, left, self.requested)

    def score(self, name: str, outcome: Solved) -> Score:
        """Return the score with the stranded value added to the lost value. Hot path."""
        score = outcome.score
        left = self._state.hosts.left_for(name, self._host)
        if left is None:
            return score
        more = self._stranding.change(self._state, name, self.requested, left, self._query, outcome.picks)
        # The lost value is the last but one part of a score, after the levels of a ladder; what is left over is the last.
        return (*score[:-2], score[-2] + more, score[-1]) if more else score
