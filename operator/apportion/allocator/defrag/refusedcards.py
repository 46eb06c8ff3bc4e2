"""RefusedCards: which cards need not be tried, because claims like theirs found no devices from other cards.

In: claims that were to leave a card one after the other, up to the one for which no node has devices. Out: whether the claims of a further card begin alike, so that they would find none either.

While a card is tried, nobody is sent there; so what it has room for counts for the claims of every other card. But as many claims as fail together have their places on as many cards at most: what fails
from one card more than that fails from every one. That holds as long as nothing becomes free, so what is known is forgotten when somebody has moved. Where devices are there and
cpu, memory or the names of nodes are against them, nothing is known: that may be otherwise for the claims of another card.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeAlias

from apportion.allocator.allocate import decide
from apportion.allocator.defrag.moves import Movable
from apportion.allocator.rules.query import Query
from apportion.allocator.state import State
from apportion.allocator.terms import Terms

_Queries: TypeAlias = tuple[Query, ...]


@dataclass(slots=True)
class RefusedCards:
    """What has failed since somebody moved last."""

    state: State
    terms: Terms
    _times: Counter[_Queries] = field(default_factory=Counter)
    """From how many cards claims with these queries failed, the last of them having found no devices."""

    def note(self, tried: Sequence[Movable]) -> None:
        """Note that the last of these finds no place, once the others have moved; the state is as it was when it was asked."""
        if decide(self.state, replace(tried[-1].demand, nodes=None), self.terms) is None:
            self._times[tuple(self._queries(tried))] += 1

    def cover(self, movables: Iterable[Movable]) -> bool:
        """Say whether these cannot all move, in this order."""
        if not self._times:
            return False
        begun = accumulate(((each,) for each in self._queries(movables)), lambda one, other: one + other)
        return any(self._times[queries] > len(queries) for queries in begun)

    def forget(self) -> None:
        """Somebody has moved."""
        self._times.clear()

    def _queries(self, movables: Iterable[Movable]) -> Iterator[Query]:
        state = self.state
        for each in movables:
            demand = each.demand
            yield state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
