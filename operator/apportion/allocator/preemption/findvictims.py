"""find_victims(): the cheapest victims in the cluster whose devices would serve a demand.

In: a state, a demand, its terms, the victims of each node that could take it. Out: the victims with what the demand gets once they
are gone, or None. Pure and deterministic; the state is unchanged at the end.

Cost: the highest priority among the victims first, then the number of pods that go, then the time that they have had their
devices. Nodes are searched in the order of their bounds until no other node can be cheaper. A demand that a node could serve
without any victim gets none here: it only waits for its turn.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.demand import Demand
from apportion.allocator.preemption.nodesearch import Budget, Found, NodeSearch
from apportion.allocator.preemption.victims import NodeVictims, VictimCost, VictimSet
from apportion.allocator.state import State
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId

TRIES = 256
"""Questions that a search may ask of the allocator: some tenths of a millisecond each."""
MOST_NODES = 32
"""Nodes of which a search takes bounds at most."""


def find_victims(
    state: State,
    demand: Demand,
    nodes: Sequence[NodeVictims],
    *,
    wanted: Mapping[str, int] | None = None,
    terms: Terms = DEFAULT_TERMS,
    prefer: Mapping[DeviceId, int] | None = None,
    tries: int = TRIES,
) -> VictimSet | None:
    """Return the cheapest victims; None if no node of these could serve the demand without some of its victims.

    `wanted`: resources that the demand's pods request of a node, `pods` included. `tries`: with more of them more sets
    are proven to be the cheapest. Of more than MOST_NODES nodes only the first are looked at: the caller takes turns.

    Raises BrokenInput if no state could serve the claims as they are written.
    """
    budget, asked = Budget(tries), wanted or {}
    bounds: list[tuple[tuple[int, int], int]] = []
    for number, node in enumerate(nodes[:MOST_NODES]):
        if node.node in state.names():
            with NodeSearch(state, demand, node, asked, budget) as search:
                bound = search.bound()
            if bound is not None:
                bounds.append((bound, number))
    best: tuple[NodeVictims, Found] | None = None
    proven = True
    for bound, number in sorted(bounds):
        below = (best[1].priority, best[1].weight) if best is not None else None
        # As long as nothing would be lost, another node may need nobody to go.
        if below is not None and bound >= below and below[1]:
            break
        if budget.left <= 0:
            proven = False
            break
        with NodeSearch(state, demand, nodes[number], asked, budget) as search:
            found = search.cheapest(below)
            proven &= search.proven
        if found is not None:
            if not found.mask:
                return None
            best = nodes[number], found
    if best is None:
        return None
    node, found = best
    with NodeSearch(state, demand, node, asked, budget) as search:
        decision = search.decision(found.mask, terms, prefer or {})
    if decision is None:
        return None
    return VictimSet(
        node.node,
        node.chosen(node.closed(found.mask)),
        node.broken_groups(found.mask),
        VictimCost.of(found.priority, found.weight),
        decision,
        proven,
    )
