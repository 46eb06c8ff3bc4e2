"""One attempt to place several demands beside each other.

In: a state, demands, how to decide for one. Out: decisions that are held on the state inside the `with` block, and taken
back at its end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Self

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import NO_RESOURCES, HostResources
from apportion.allocator.state import State

DEPTH = 2
"""How many may move aside, one for the other."""


@dataclass(slots=True)
class Tentative:
    """Decisions tried out on the state, taken back on leaving."""

    state: State
    demands: Sequence[Demand]
    decide: Callable[[Demand], Decision | None]
    tries: int = 0
    """Swaps that may still be tried to make room for what was refused."""
    placed: dict[int, Decision] = field(default_factory=dict)
    """By the number of the demand."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in tuple(self.placed):
            self.drop(number)

    def fill(self, order: Sequence[int]) -> None:
        """Place what fits, in this order."""
        for number in order:
            self.place(number)

    def place(self, number: int) -> bool:
        """Place it if it fits; say whether."""
        found = self.decide(self.beside(number))
        if found is None:
            return False
        self.put(number, found)
        return True

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
                taken[decision.node] = taken.get(decision.node, NO_RESOURCES).plus(host.asked)
        if not taken:
            return demand
        host = demand.host.beside(taken)
        hosts = self.state.hosts
        full = {
            name
            for name in taken
            if (left := hosts.beside(name, host)) is not None and not left.holds(host.asked)
        }
        nodes = frozenset(self.state.names()) if demand.nodes is None and full else demand.nodes
        return replace(demand, host=host, nodes=nodes - full if nodes is not None else None)

    def _keys(self, number: int) -> list[str]:
        """Return the holders' names: the claims' own UIDs, so that explanations can name them."""
        claims = self.demands[number].claims
        return [claim.uid or f"batch/{number}/{position}" for position, claim in enumerate(claims)]

    def improve(self, order: Sequence[int]) -> None:
        """Try to make room for what was refused."""
        for number in order:
            if number not in self.placed:
                self.squeeze(number, DEPTH, frozenset([number]))

    def squeeze(self, number: int, depth: int, moving: frozenset[int]) -> bool:
        """Place it, with one or two others moving aside if need be; leave everything as it was where that fails."""
        if self.place(number):
            return True
        if not depth:
            return False
        others = [other for other in self.placed if other not in moving]
        rows = [(other,) for other in others] + list(combinations(others, 2))
        return any(self.swap(number, row, depth, moving) for row in rows)

    def swap(self, number: int, row: tuple[int, ...], depth: int, moving: frozenset[int]) -> bool:
        """Place it where these are, and these elsewhere."""
        self.tries -= 1
        if self.tries < 0:
            return False
        before = dict(self.placed)
        for other in row:
            self.drop(other)
        aside = moving | set(row)
        if self.place(number) and all(self.squeeze(other, depth - 1, aside) for other in row):
            return True
        for other in self.placed.keys() - before.keys() | {
            other for other, decision in before.items() if self.placed.get(other, decision) is not decision
        }:
            self.drop(other)
        for other, decision in before.items():
            if other not in self.placed:
                self.put(other, decision)
        return False
