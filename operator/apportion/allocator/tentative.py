"""Tentative: decisions of several demands, held on the state for a while.

In: a state, demands, decisions one by one. Out: the demands beside each other; the state is what it was at the end of the
`with` block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import NO_RESOURCES, HostResources
from apportion.allocator.state import State


@dataclass(slots=True)
class Tentative:
    """Decisions held on the state until the block is left."""

    state: State
    demands: Sequence[Demand]
    placed: dict[int, Decision] = field(default_factory=dict)
    """By the number of the demand."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in tuple(self.placed):
            self.drop(number)

    def put(self, number: int, decision: Decision) -> None:
        """Hold what was decided for it."""
        self.placed[number] = decision
        for key, allocation in zip(self._keys(number), decision.allocations, strict=True):
            self.state.hold(key, allocation.results)

    def drop(self, number: int) -> None:
        """Take back what was decided for it."""
        for key in self._keys(number):
            self.state.release(key)
        del self.placed[number]

    def beside(self, number: int) -> Demand:
        """Return the demand beside what the others that are placed take of nodes."""
        demand = self.demands[number]
        if demand.host is None:
            return demand
        taken: dict[str, HostResources] = {}
        for other, decision in self.placed.items():
            host = self.demands[other].host
            if host is not None:
                taken[decision.node] = taken.get(decision.node, NO_RESOURCES).plus(host.requested)
        if not taken:
            return demand
        host = demand.host.with_taken(taken)
        hosts = self.state.hosts
        full = {
            name
            for name in taken
            if (left := hosts.left_for(name, host)) is not None and not left.holds(host.requested)
        }
        nodes = frozenset(self.state.names()) if demand.nodes is None and full else demand.nodes
        return replace(demand, host=host, nodes=nodes - full if nodes is not None else None)

    def _keys(self, number: int) -> list[str]:
        """Return the holders' names: the claims' own UIDs, so that explanations can name them."""
        claims = self.demands[number].claims
        return [claim.uid or f"batch/{number}/{position}" for position, claim in enumerate(claims)]
