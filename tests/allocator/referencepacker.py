"""A reference packer: allocates demands as equals, in several orders, with swaps.

In: a state, demands. Out: a decision or None for each. Tests compare its result with an exact solver's.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.pricing.demandmix import entries
from apportion.allocator.queue import size_of
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.allocator.terms import DEFAULT_TERMS, Terms

TRIES = 64
"""Swaps tried per order."""
ORDERS = 8
DEPTH = 2
"""Claims that may move in a chain of swaps."""


@dataclass(slots=True)
class SwappingPacker(Tentative):
    """Tentative decisions that may be exchanged for others."""

    terms: Terms = DEFAULT_TERMS
    tries: int = TRIES

    def place(self, number: int) -> bool:
        """Allocate a demand; return whether it fits."""
        found = decide(self.state, self.beside(number), self.terms)
        if found is not None:
            self.put(number, found)
        return found is not None

    def squeeze(self, number: int, depth: int, moving: frozenset[int]) -> bool:
        """Allocate a demand, moving one or two others if necessary; restore all decisions if that fails."""
        if self.place(number):
            return True
        if not depth:
            return False
        others = [other for other in self.placed if other not in moving]
        rows = [(other,) for other in others] + list(combinations(others, 2))
        return any(self.swap(number, row, depth, moving) for row in rows)

    def swap(self, number: int, row: tuple[int, ...], depth: int, moving: frozenset[int]) -> bool:
        """Allocate a demand in place of others, and those elsewhere."""
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


def pack_with_swaps(state: State, demands: Sequence[Demand]) -> list[Decision | None]:
    """Serve as many demands as possible; one may be refused if two others are served instead."""
    learnt = Terms(Strategy.LEAST_FRAGMENTATION)
    alone = {number: found for number, one in enumerate(demands) if (found := decide(state, one, learnt))}
    asked = Counter(decision.asked for decision in alone.values() if decision.asked is not None)
    mix = tuple(row for query, count in asked.items() for row in entries(query, count))
    terms = Terms(Strategy.LEAST_FRAGMENTATION, mix=mix)
    small = sorted(alone, key=lambda number: (size_of(state, alone[number]), number))
    best: dict[int, Decision] = {}
    for order in islice(_orders(small), ORDERS):
        with SwappingPacker(state, demands, terms=terms) as tentative:
            for number in order:
                tentative.place(number)
            for number in small:
                if number not in tentative.placed:
                    tentative.squeeze(number, DEPTH, frozenset([number]))
            best = max(best, dict(tentative.placed), key=len)
        if len(best) == len(alone):
            break
    return [best.get(number) for number in range(len(demands))]


def _orders(small: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the orders to try: largest first, smallest first, smallest first after one larger one."""
    yield small[::-1]
    yield small
    for number in small[::-1]:
        yield (number, *(other for other in small if other != number))
