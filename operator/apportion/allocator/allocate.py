"""allocate(): choose devices for the claims of one demand.

In: a state, a demand, terms. Out: a decision, or a refusal with its reasons. Pure: no clock, no I/O, no randomness; equal
arguments give equal answers. docs/tour.md follows one claim through these steps.
"""

from collections.abc import Iterator, Mapping

from apportion.allocator.allocationresult import ShareIds, allocations, derived_share_ids
from apportion.allocator.closeness.closest import LadderScorer
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.nodechoice import NodeChoice
from apportion.allocator.nodesteps import MANY_STATES
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.ranking.ranking import Ranking
from apportion.allocator.rules.query import NamedQuery, Query
from apportion.allocator.search.scorer import Scorer, Strategy
from apportion.allocator.search.searchbudget import STEPS
from apportion.allocator.state import State
from apportion.allocator.strategies.stateless import STATELESS
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId


def allocate(
    state: State,
    demand: Demand,
    terms: Terms = DEFAULT_TERMS,
    *,
    prefer: Mapping[DeviceId, int] | None = None,
    share_ids: ShareIds | None = None,
    reuse: bool = True,
    steps: int = STEPS,
) -> Decision | Refusal:
    """Choose devices for all claims of the demand on one node, or for none of them.

    `prefer`: bonus of devices that are better than others (a partition already cut); it wins over the strategy, but not
    over the order of alternatives. `share_ids`: makes share IDs (default: derived from the demand's seed).
    `reuse=False`: search every node without shortcuts, estimates and kept outcomes; the reference that tests compare with.
    `steps`: devices that the search may try per node; a budget other than the default reuses nothing.

    Raises BrokenInput, which names claim, request and reason, if no state could serve the claims as they are written, or
    if every node that has devices fails on them (a selector error, mode All on an incomplete pool).
    """
    choice = _choice(state, demand, terms, prefer, reuse=reuse, steps=steps)
    choice.ranking.begin(state.moment)
    choice.begun()
    return _decision(choice, share_ids or derived_share_ids(demand.seed)) or choice.refusal()


def decide(
    state: State,
    demand: Demand,
    terms: Terms = DEFAULT_TERMS,
    *,
    prefer: Mapping[DeviceId, int] | None = None,
) -> Decision | None:
    """Return the decision of `allocate`, None where it would refuse; saves the time of an explanation.

    The state may show what might be, without pods that may be evicted, say: searches that were given up before are not forgotten for it
    (`Ranking.begin`), as many such questions may belong to one decision. Raises BrokenInput if no state could serve the claims as they are written.
    """
    choice = _choice(state, demand, terms, prefer, reuse=True, steps=STEPS).begun()
    return _decision(choice, derived_share_ids(demand.seed))


def catching_up(
    state: State,
    demand: Demand,
    terms: Terms,
    *,
    prefer: Mapping[DeviceId, int] | None = None,
    supposed: bool = False,
) -> Iterator[bool]:
    """Search the nodes that `decide` would search for a demand that `is_slow`, and keep what was found.

    Yields after each, and after each slice of a search that takes long, whether the search goes on; a step takes up to some hundredths of a second. All other
    searches take less than a thousandth, and none is made here. The state may change in between. `supposed`: it shows what might be, as for
    `decide`. Raises BrokenInput as `decide` does.
    """
    if not is_slow(state, demand, terms):
        return

    def now() -> NodeChoice:
        choice = _choice(state, demand, terms, prefer, reuse=True, steps=STEPS, pauses=True)
        if not supposed:
            choice.ranking.begin(state.moment)
        return choice

    choice = now()
    for name, devices in choice.singled_out().items():
        is_paused = True
        while is_paused and choice.advance_on(name, devices):
            is_paused = choice.paused
            yield is_paused
            choice = now()
    # What changes meanwhile adds searches: the rest is for `decide`.
    # Some that were estimated before may be searched once more.
    left = 2 * len(state.names())
    while left and choice.advance():
        left -= not choice.paused
        yield choice.paused
        choice = now()


def is_slow(state: State, demand: Demand, terms: Terms) -> bool:
    """Say whether the searches for a demand may take some hundredths of a second: for several devices, where a ladder compares them, on each node of its own, or in many states.

    Raises BrokenInput if no state could serve the claims as they are written.
    """
    query = state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
    if query.most > 1 or _ladder(query, terms) is not None:
        return True
    node_states = state.settle(query)
    if not state.query_cache.shared(query):
        return True
    if demand.host is None or len(node_states) <= MANY_STATES:
        return False
    return _choice(state, demand, terms, None, reuse=True, steps=STEPS).compares_many()


def serving(state: State, demand: Demand) -> frozenset[str]:
    """Return the nodes of the demand that could serve it now, each by itself; cpu and memory aside.

    Raises BrokenInput if no state could serve the claims as they are written.
    """
    choice = _choice(state, demand, DEFAULT_TERMS, None, reuse=True, steps=STEPS)
    found = choice.serving()
    choice.ranking.decided(state.moment)
    return found


def _choice(
    state: State,
    demand: Demand,
    terms: Terms,
    prefer: Mapping[DeviceId, int] | None,
    *,
    reuse: bool,
    steps: int,
    pauses: bool = False,
) -> NodeChoice:
    own = state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
    ladder = _ladder(own, terms)
    # Settle before looking up the representative: settling may make node classes void.
    node_states = state.settle(own, ladder)
    query = state.query_cache.representative(own)
    learned = None
    if terms.strategy is Strategy.LEAST_FRAGMENTATION:
        learned = state.scorer(terms.mix)
        scorer: Scorer = learned
    else:
        scorer = STATELESS[terms.strategy]
    variant = ladder, scorer.discriminator(query)
    if ladder is not None:
        scorer = LadderScorer(scorer, ladder)
    reuse = reuse and steps == STEPS
    ranking = _ranking(state, query, terms.strategy, scorer, variant, reuse=reuse)
    return NodeChoice(
        state,
        node_states,
        demand,
        NamedQuery.of(own, demand.claims),
        query,
        ranking,
        prefer or {},
        reuse,
        steps,
        pauses,
        learned,
    )


def _ladder(query: Query, terms: Terms) -> Ladder | None:
    """Return the ladder that may change what is chosen."""
    ladder = terms.ladder
    if ladder is None or terms.strategy is Strategy.FIRST_FIT or not ladder.matters(query.most):
        return None
    return ladder


def _decision(choice: NodeChoice, share_ids: ShareIds) -> Decision | None:
    found = choice.best()
    choice.ranking.decided(choice.state.moment)
    if found is None:
        return None
    name, solved = found
    made = allocations(choice.state.view(name), choice.named, solved.picks, share_ids)
    return Decision(name, made, choice.query)


def _ranking(
    state: State, query: Query, strategy: Strategy, scorer: Scorer, variant: object, *, reuse: bool
) -> Ranking:
    """Return the kept ranking of the query; a new one if prices changed since or nothing may be reused."""
    cache = state.query_cache
    shared = reuse and cache.shared(query) and cache.comparable(scorer)
    found = cache.ranking(query, strategy, shared=shared, variant=variant) if reuse else None
    # Scores under different prices are not comparable.
    if found is None or found.strategy is not scorer.strategy:
        found = (
            RankedStates(scorer, query, state.node_states) if shared else RankedNodes(scorer, query, state)
        )
        if reuse:
            cache.keep(query, strategy, found, variant)
    found.query = query
    return found
