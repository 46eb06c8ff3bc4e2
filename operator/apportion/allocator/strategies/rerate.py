"""Re-score an earlier solution after prices changed, where prices cannot change which devices are picked.

In: a node's view, a query, a scorer, the outcomes kept with the node's state. Out: what a search would find. Devices
without counters that only one claim may have cost the node nothing but themselves, so the search picks the same ones
whatever the prices are.
"""

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import Outcome, Solved, Unsolved
from apportion.allocator.search.scorer import OutcomeKeeper, Scorer
from apportion.allocator.search.search import Search, solve


def rerate(
    view: NodeView, query: Query, scorer: Scorer, selectors: SelectorLookup, keeper: OutcomeKeeper
) -> Outcome:
    """Return the outcome of one node: a kept one with a new score, or a searched one."""
    former = keeper.price_free.get(query)
    if isinstance(former, Unsolved):
        return former
    if isinstance(former, Solved):
        search = Search(view, query, [], scorer)
        for pick in former.picks:
            search.taken |= 1 << pick.device
            search.picks.append(pick)
        return scorer.finish(search, former.ranks, former.picks)
    found = solve(view, query, scorer, selectors)
    if isinstance(found, Solved | Unsolved) and _is_price_free(view, query, selectors):
        keeper.price_free[query] = found
    return found


def _is_price_free(view: NodeView, query: Query, selectors: SelectorLookup) -> bool:
    """Say whether all matching devices are without counters and for one claim only."""
    priced = ~view.plain | view.shareable
    return query.plain and not any(
        view.selected(alternative, selectors)[0] & priced
        for slot in query.slots
        for alternative in slot.alternatives
    )
