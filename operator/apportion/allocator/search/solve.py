"""Solve one node: from candidates to an outcome."""

from collections.abc import Mapping
from typing import Protocol

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import candidate_rows
from apportion.allocator.search.outcome import BROKEN, EXHAUSTED, NOTHING, Outcome, Solved
from apportion.allocator.search.search import STEPS, Order, OutOfBudget, Pick, Search


class Finisher(Order, Protocol):
    """The part of a scorer that a search needs."""

    def finish(self, search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...]) -> Solved:
        """Return the outcome of a search that found these picks."""
        ...


def solve(
    view: NodeView,
    query: Query,
    scorer: Finisher,
    selectors: SelectorLookup,
    *,
    steps: int = STEPS,
    prefer: Mapping[int, int] | None = None,
    excluded: int = 0,
) -> Outcome:
    """Search one node. The outcome depends on the arguments only."""
    try:
        rows = candidate_rows(view, query, selectors, excluded)
        search = Search(view, query, rows, scorer, steps=steps, prefer=prefer)
        picks = search.run()
    except NodeError as error:
        return error
    except OutOfBudget:
        return EXHAUSTED
    if picks is None:
        return NOTHING if view.invalid is None else BROKEN
    ranks = dict.fromkeys(range(len(query.slots)), 0) | {pick.slot: pick.alternative for pick in picks}
    return scorer.finish(search, tuple(ranks.values()), picks)
