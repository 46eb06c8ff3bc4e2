"""free_value(): what the free devices of some nodes are worth at the allocator's prices (ADR 9).

In: a state, nodes, terms. Out: `UNIT`s of a whole device; None where no demand is known, so that nothing has a price.
"""

from collections.abc import Iterable

from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.state import State
from apportion.allocator.terms import Terms


def free_value(state: State, nodes: Iterable[str], terms: Terms) -> int | None:
    """Return the value of what is free on these nodes together, under the mix of the terms or the learnt one."""
    scorer = state.scorer(terms.mix)
    if not scorer.prices.mix:
        return None
    states = state.settle()
    worth = FreeWorth(scorer.prices, scorer.share_prices)
    return sum(worth.free(states.of(name), state.view(name)) for name in sorted(nodes))
