"""allocate(): the one question that the allocator answers.

In: a state and a demand. Out: a decision, or a refusal that says why. Pure: no clock, no I/O, no randomness; the same
state and demand give the same answer.
"""

from collections.abc import Mapping

from apportion.allocator.allocationresult import ShareIds, allocations, derived_share_ids
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.closeness.scorer import LadderScorer
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.nodechoice import NodeChoice
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.scorer import Scorer, Strategy
from apportion.allocator.search.search import STEPS
from apportion.allocator.state import State
from apportion.allocator.strategies.first_fit import FirstFit
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation
from apportion.allocator.strategies.pack import Pack
from apportion.allocator.strategies.spread import Spread
from apportion.dra.device import DeviceId

SCORERS: Mapping[Strategy, Scorer] = {
    Strategy.FIRST_FIT: FirstFit(),
    Strategy.PACK: Pack(),
    Strategy.SPREAD: Spread(),
}


def allocate(
    state: State,
    demand: Demand,
    *,
    strategy: Strategy = Strategy.PACK,
    prefer: Mapping[DeviceId, int] | None = None,
    share_ids: ShareIds | None = None,
    ladder: Ladder | None = None,
    mix: DemandMix | None = None,
    steps: int = STEPS,
) -> Decision | Refusal:
    """Choose devices for all claims of the demand on one node, or for none of them.

    `prefer`: devices that cost nothing, by how good that is; they win over the strategy, not over the order of
    alternatives. `share_ids`: makes share IDs (default: derived from the demand's seed). `ladder`: which devices to keep
    close together; FirstFit pays no attention to it. `mix`: the demand that LeastFragmentation keeps room for, in place
    of what the state has learnt. `steps`: devices that the search may try per node.

    Raises BrokenInput when no state could serve the claims as they are written, or when every node that has devices to
    offer fails on them (a selector that errs, mode All on a pool in update); it names claim, request and reason.
    """
    question = _question(state, demand, strategy, prefer, ladder, mix, steps)
    return _decision(question, share_ids or derived_share_ids(demand.seed)) or question.refusal()


def decide(
    state: State,
    demand: Demand,
    *,
    strategy: Strategy = Strategy.PACK,
    prefer: Mapping[DeviceId, int] | None = None,
    ladder: Ladder | None = None,
    mix: DemandMix | None = None,
) -> Decision | None:
    """Return what `allocate` would decide, None where it would refuse: why takes longer to find out than that.

    Raises BrokenInput when no state could serve the claims as they are written.
    """
    question = _question(state, demand, strategy, prefer, ladder, mix, STEPS)
    return _decision(question, derived_share_ids(demand.seed))


def _question(
    state: State,
    demand: Demand,
    strategy: Strategy,
    prefer: Mapping[DeviceId, int] | None,
    ladder: Ladder | None,
    mix: DemandMix | None,
    steps: int,
) -> NodeChoice:
    meaning = state.meanings.of(demand.claims, state.classes, state.features, demand.tolerations)
    shape = meaning.shape(demand.claims)
    if ladder is not None and (strategy is Strategy.FIRST_FIT or not ladder.matters(meaning.most)):
        ladder = None
    standings = state.settle(meaning, ladder)
    scorer = SCORERS.get(strategy) or state.scorer(mix)
    asked = shape.meant(state.recall.canonical(meaning))
    ranking = _ranking(state, asked, strategy, scorer, steps, ladder)
    return NodeChoice(state, standings, demand, shape, asked, ranking, prefer or {}, steps)


def _decision(question: NodeChoice, share_ids: ShareIds) -> Decision | None:
    found = question.best()
    if found is None:
        return None
    name, solved = found
    shape = question.shape
    made = allocations(question.state.view(name), shape, shape.names, solved.picks, share_ids)
    return Decision(name, made, question.asked.meaning)


def _ranking(
    state: State, shape: NamedQuery, strategy: Strategy, strategist: Scorer, steps: int, ladder: Ladder | None
) -> RankedNodes | RankedStates:
    # Answers found with another budget are not mixed with the usual ones.
    meaning = shape.meaning
    recall = state.recall
    shared = recall.shared(meaning) and (ladder is None or recall.alike(ladder))
    part = strategist.part(meaning) if isinstance(strategist, LeastFragmentation) else ()
    variant = ladder, part
    found = recall.ranking(meaning, strategy, shared=shared, variant=variant) if steps == STEPS else None
    former = found.scorer if found is not None else None
    if found is None or (former.strategy if isinstance(former, LadderScorer) else former) is not strategist:
        # Scores of two outlooks are never mixed: all nodes are looked at again.
        scorer = strategist if ladder is None else LadderScorer(strategist, ladder)
        found = RankedStates(scorer, shape) if shared else RankedNodes(scorer)
        if steps == STEPS:
            recall.remember(meaning, strategy, found, variant)
    return found
