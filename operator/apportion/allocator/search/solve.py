"""solve(): the outcome of a query on one node.

In: a view and a query. Out: an outcome, by one search and, where that takes many steps or requests have alternatives, some more; a slice at a time where that is wanted.
"""

from collections.abc import Generator, Mapping, Sequence

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import NodeError, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates, candidate_slots
from apportion.allocator.search.leastchoice import LeastChoice
from apportion.allocator.search.outcome import BROKEN, CUT_SHORT, EXHAUSTED, NOTHING, Outcome
from apportion.allocator.search.partial import OutOfBudget, Pick
from apportion.allocator.search.search import Search, SearchStrategy
from apportion.allocator.search.searchbudget import FULL, SLICE, Paused, SearchBudget

TOGETHER = 4
"""Requests for whose earlier alternatives a search is made without a pause: each takes some thousandths of a second."""


def solve(
    view: NodeView,
    query: Query,
    strategy: SearchStrategy,
    selectors: SelectorLookup,
    budget: SearchBudget = FULL,
    *,
    prefer: Mapping[int, int] | None = None,
    excluded: int = 0,
) -> Outcome:
    """Search one node. The outcome depends only on the arguments. Raises Paused after a slice where the budget says so; the next call goes on."""
    paused, slices, key = budget.paused, None, None
    if paused is not None and (budget.pauses or paused.slices is not None):
        preferred = tuple(sorted(prefer.items())) if prefer else ()
        key = view, view.node_class, view.holdings, query, preferred, excluded
        slices = paused.take(key)
    goes_on = slices is not None
    if slices is None:
        slices = _slices(view, query, strategy, selectors, budget, prefer, excluded)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            if paused is not None and goes_on:
                paused.ended()
            outcome: Outcome = end.value
            return outcome
        if paused is not None and budget.pauses:
            paused.put(key, slices, goes_on=goes_on)
            raise Paused


def _slices(
    view: NodeView,
    query: Query,
    strategy: SearchStrategy,
    selectors: SelectorLookup,
    budget: SearchBudget,
    prefer: Mapping[int, int] | None,
    excluded: int,
) -> Generator[None, None, Outcome]:
    try:
        rows = yield from candidate_slots(view, query, selectors, excluded)
        search, picks, first = yield from _any_order(view, query, rows, strategy, budget.steps, prefer)
    except NodeError as error:
        return error
    except OutOfBudget:
        return CUT_SHORT if budget.cuts_short else EXHAUSTED
    if picks is None:
        return NOTHING if view.invalid is None else BROKEN
    if not first or (strategy.scans and not search.exact_order):
        search, picks = yield from _with_earliest_alternatives(search, rows, picks, strategy, first)
    if budget.steps - search.work_left > SLICE:
        yield
    return (yield from strategy.finish(search, _ranks(query, picks), picks))


def _any_order(
    view: NodeView,
    query: Query,
    rows: list[list[Candidates]],
    strategy: SearchStrategy,
    steps: int,
    prefer: Mapping[int, int] | None,
) -> Generator[None, None, tuple[Search, tuple[Pick, ...] | None, int]]:
    """Return a search with its picks, and the first slot for which earlier alternatives may be possible.

    In the order of the slots; where half of the steps do not suffice, with the other half in that of the slots with the least choice.
    """
    other = LeastChoice.of(view, query, rows)
    own = steps - steps // 2 if other is not None else steps
    search = Search(view, query, rows, strategy, steps=own, prefer=prefer)
    try:
        return search, (yield from search.slices()), 1
    except OutOfBudget:
        if other is None:
            raise
    return *(yield from other.search(view, query, rows, strategy, steps - own, prefer)), 0


def _with_earliest_alternatives(
    search: Search,
    rows: list[list[Candidates]],
    picks: tuple[Pick, ...],
    strategy: SearchStrategy,
    first: int,
) -> Generator[None, None, tuple[Search, tuple[Pick, ...]]]:
    """Return a solution in which each slot has the earliest alternative that the slots before it leave possible, as far as the steps left suffice.

    A strategy's first device for one slot may be the only one that serves an early alternative of a later slot.
    """
    left = search.steps_left
    # Strategies look up alternatives by their number.
    search.candidate_rows = rows
    ranks = _ranks(search.query, picks)
    for number in range(first, len(rows)):
        if not ranks[number]:
            continue
        if number % TOGETHER == 0:
            yield
        before = [[row[rank]] for row, rank in zip(rows[:number], ranks, strict=False)]
        earlier = [*before, rows[number][: ranks[number]], *rows[number + 1 :]]
        steps = left // (len(rows) - number)
        narrowed = Search(search.view, search.query, earlier, strategy, steps=steps, prefer=search.prefer)
        try:
            found = yield from narrowed.slices()
        except OutOfBudget:
            found = None
        left -= steps - narrowed.steps_left
        if found is not None:
            narrowed.candidate_rows = rows
            search, picks, ranks = narrowed, found, _ranks(search.query, found)
    return search, picks


def _ranks(query: Query, picks: Sequence[Pick]) -> tuple[int, ...]:
    """Return the number of each slot's alternative."""
    ranks = dict.fromkeys(range(len(query.slots)), 0) | {pick.slot: pick.alternative for pick in picks}
    return tuple(ranks.values())
