"""LeastChoice: a query whose requests are searched in another order, those with the least choice first.

In: a query and its candidates on a node. Out: devices for its requests, or the proof that there are none. A search in the requests' own order tries
each way to serve the first ones before it finds out that none leaves enough for a later one: with shares of eight cards that differ,
more ways than there are steps. Of requests with equal choice the largest shares are first, for small ones fill what these leave. It is for the verdict that the order does not matter; upstream's first solution is another one.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.partial import Pick
from apportion.allocator.search.search import Search, SearchStrategy


@dataclass(frozen=True, slots=True)
class LeastChoice:
    """The order in which requests are searched."""

    slots: tuple[int, ...]
    """The number of each slot of the query."""

    @classmethod
    def of(cls, view: NodeView, query: Query, rows: Sequence[Sequence[Candidates]]) -> Self | None:
        """Return the order; None where it is the query's own, or may change the verdict.

        An error ends a search where it is met. Admin access keeps later claims from a device, and not earlier ones: the order of claims stays then.
        """
        if len(rows) < 2 or any(candidates.may_end for row in rows for candidates in row):
            return None
        by_claim = any(one.admin for one in query.alternatives)

        several = view.shareable and len({one.capacity for one in query.alternatives}) > 1

        def choice(number: int) -> tuple[int, int, float]:
            row = rows[number]
            claim = query.slots[number].claim if by_claim else 0
            part = min([_part(view, one) for one in row]) if several else 0
            return claim, max([one.mask.bit_count() - one.count for one in row]), -part

        found = tuple(sorted(range(len(rows)), key=choice))
        return cls(found) if found != tuple(range(len(rows))) else None

    def search(
        self,
        view: NodeView,
        query: Query,
        rows: Sequence[Sequence[Candidates]],
        strategy: SearchStrategy,
        steps: int,
        prefer: Mapping[int, int] | None,
    ) -> Generator[None, None, tuple[Search, tuple[Pick, ...] | None]]:
        """Return a search in the query's own order that has chosen the devices found in this one, and its picks; None: there are none.

        Raises OutOfBudget.
        """
        reordered = Query(tuple([query.slots[number] for number in self.slots]), query.constraints, {})
        search = Search(
            view, reordered, [rows[number] for number in self.slots], strategy, steps=steps, prefer=prefer
        )
        picks = yield from search.slices()
        if picks is None:
            return search, None
        chosen: dict[tuple[int, int], int] = {}
        for pick in picks:
            place = self.slots[pick.slot], pick.alternative
            chosen[place] = chosen.get(place, 0) | 1 << pick.device
        found = [[replace(rows[slot][number], mask=mask)] for (slot, number), mask in sorted(chosen.items())]
        own = Search(view, query, found, strategy, steps=search.steps_left + len(picks), prefer=search.prefer)
        return own, (yield from own.slices())


def _part(view: NodeView, candidates: Candidates) -> float:
    """Return the part of its first device to share that an alternative takes, of the capacity of which it takes most."""
    mask = candidates.mask & view.shareable
    if not mask:
        return 0
    index = (mask & -mask).bit_length() - 1
    taken, capacity = view.charge(index, candidates.alternative), view.devices[index].capacity
    parts = [
        amount.nano / capacity[name].value.nano
        for name, amount in (taken.items() if isinstance(taken, dict) else ())
        if amount.nano
    ]
    return max(parts, default=0)
