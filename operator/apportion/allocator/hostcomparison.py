"""HostComparison: how nodes compare for one demand where cpu or memory is short beside their devices.

In: a demand with what its pods request beside devices. Out: sort keys that count the devices which would be stranded. Only
LeastFragmentation asks; nodes with plenty of both are compared by devices alone.
"""

from collections.abc import Set as AbstractSet

from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.ranking.ranking import SortKey
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import Solved
from apportion.allocator.state import State


class HostComparison:
    """One demand's look at cpu and memory."""

    __slots__ = ("_host", "_known", "_query", "_state", "_stranding", "nodes")

    def __init__(self, state: State, query: Query, host: HostDemand, stranding: Stranding) -> None:
        self._state = state
        self._query = query
        self._host = host
        self._stranding = stranding
        self._known: dict[tuple[NodeState, int, HostResources], int] = {}
        """By outcome, too; outcomes outlive the demand."""
        self.nodes: AbstractSet[str] = state.host_constrained_nodes(stranding, host, query)
        """Nodes that cannot be compared by devices alone."""

    def sort_key(self, key: SortKey, outcome: Solved) -> SortKey:
        """Return the key with what would be stranded added to what is lost."""
        ranks, score, name = key
        left = self._state.hosts.left_for(name, self._host)
        if left is None:
            return key
        node_state = self._state.node_states.of(name)
        seen = node_state, id(outcome), left
        more = self._known.get(seen)
        if more is None:
            more = self._known[seen] = self._stranding.change(
                self._host, left, node_state, self._state.view(name), self._query, outcome.picks
            )
        # What is lost comes before what is left over; both come last, also after a ladder's levels.
        return (ranks, (*score[:-2], score[-2] + more, score[-1]), name) if more else key
