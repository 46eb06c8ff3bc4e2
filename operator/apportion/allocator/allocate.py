"""allocate(): the one question that the allocator answers.

In: a state and a demand. Out: a decision, or a refusal that says why. Pure: no clock, no I/O, no randomness; the same
state and demand give the same answer.
"""

from collections.abc import Iterable, Mapping

from apportion.allocator.counters import bits
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain import explain
from apportion.allocator.fault import Fault
from apportion.allocator.outcome import EXHAUSTED, NOTHING, Outcome, Solved, solve
from apportion.allocator.ranking import Ranking
from apportion.allocator.result import ShareIds, allocations, derived_share_ids
from apportion.allocator.score.first_fit import FirstFit
from apportion.allocator.score.pack import Pack
from apportion.allocator.score.spread import Spread
from apportion.allocator.score.strategy import Scorer, Strategy
from apportion.allocator.search import STEPS
from apportion.allocator.shape import Shape, resolve
from apportion.allocator.state import State
from apportion.allocator.view import NodeView
from apportion.dra.device import DeviceId

SCORERS: Mapping[Strategy, Scorer] = {
    Strategy.FIRST_FIT: FirstFit(),
    Strategy.PACK: Pack(),
    Strategy.SPREAD: Spread(),
    Strategy.LEAST_FRAGMENTATION: Pack(),
}


def allocate(
    state: State,
    demand: Demand,
    *,
    strategy: Strategy = Strategy.PACK,
    prefer: Mapping[DeviceId, int] | None = None,
    share_ids: ShareIds | None = None,
    steps: int = STEPS,
) -> Decision | Refusal:
    """Choose devices for all claims of the demand on one node, or for none of them.

    `prefer`: devices that cost nothing, by how good that is; they win over the strategy, not over the order of
    alternatives. `share_ids`: makes share IDs (default: derived from the demand's seed). `steps`: devices that the
    search may try per node.

    Raises BrokenInput when no state could serve the claims as they are written, or when every node that has devices to
    offer fails on them (a selector that errs, mode All on a pool in update); it names claim, request and reason.
    """
    shape = resolve(demand.claims, state.classes, state.features, demand.tolerations)
    ranking = _ranking(state, shape, strategy, steps)
    found = _choose(state, demand, shape, ranking, prefer or {}, steps)
    if found is None:
        return _refuse(state, demand, shape, ranking)
    name, solved = found
    made = allocations(
        state.view(name), shape, shape.names, solved.picks, share_ids or derived_share_ids(demand.seed)
    )
    return Decision(name, made)


def _ranking(state: State, shape: Shape, strategy: Strategy, steps: int) -> Ranking:
    found = state.ranking(shape, strategy) if steps == STEPS else None
    if found is None:
        found = Ranking(SCORERS[strategy])
        if steps == STEPS:
            state.remember(shape, strategy, found)
    return found


def _choose(
    state: State,
    demand: Demand,
    shape: Shape,
    ranking: Ranking,
    prefer: Mapping[DeviceId, int],
    steps: int,
) -> tuple[str, Solved] | None:
    """Return the best node with its picks."""
    scans = ranking.scorer.scans
    special = _special(state, demand, shape, ranking.scorer, prefer, steps)
    for name in ranking.catch_up(state):
        if scans and name in state.names():
            ranking.learn(name, solve(state.view(name), shape, ranking.scorer, state.programs, steps=steps))
    names = (
        state.names() if demand.nodes is None else [name for name in demand.nodes if name in state.names()]
    )
    if not scans:
        return _first(state, shape, ranking, sorted(names), special, steps)
    if demand.nodes is None and not special:
        return ranking.best()
    usual = ranking.best_of(name for name in names if name not in special)
    for name, outcome in special.items():
        if isinstance(outcome, Solved) and (
            usual is None or (outcome.ranks, outcome.score, name) < (usual[1].ranks, usual[1].score, usual[0])
        ):
            usual = name, outcome
    return usual


def _first(
    state: State,
    shape: Shape,
    ranking: Ranking,
    names: Iterable[str],
    special: Mapping[str, Outcome],
    steps: int,
) -> tuple[str, Solved] | None:
    for name in names:
        outcome = special.get(name) or ranking.outcome(name)
        if outcome is None:
            outcome = solve(state.view(name), shape, ranking.scorer, state.programs, steps=steps)
            ranking.learn(name, outcome)
        if isinstance(outcome, Solved):
            return name, outcome
    return None


def _special(
    state: State,
    demand: Demand,
    shape: Shape,
    scorer: Scorer,
    prefer: Mapping[DeviceId, int],
    steps: int,
) -> dict[str, Outcome]:
    """Search the nodes anew whose devices this demand alone sees differently: preferred or excluded ones."""
    named: dict[str, None] = {}
    for device in (*sorted(prefer), *sorted(demand.excluded)):
        for name in state.nodes_of(device):
            if demand.nodes is None or name in demand.nodes:
                named[name] = None
    found: dict[str, Outcome] = {}
    for name in named:
        view = state.view(name)
        excluded = sum(1 << view.index[device] for device in demand.excluded if device in view.index)
        wanted = _wanted(view, shape, state, prefer)
        if excluded or wanted:
            found[name] = solve(
                view, shape, scorer, state.programs, steps=steps, prefer=wanted, excluded=excluded
            )
    return found


def _wanted(view: NodeView, shape: Shape, state: State, prefer: Mapping[DeviceId, int]) -> dict[int, int]:
    """Return the preferred devices of a node that some request could take."""
    here = {view.index[device]: worth for device, worth in prefer.items() if device in view.index}
    if not here:
        return here
    mask = 0
    for slot in shape.slots:
        for want in slot.wants:
            mask |= view.selected(want, state.programs)[0]
    return {index: here[index] for index in bits(mask) if index in here}


def _refuse(state: State, demand: Demand, shape: Shape, ranking: Ranking) -> Refusal:
    names = sorted(state.names() if demand.nodes is None else demand.nodes & set(state.names()))
    outcomes = {name: ranking.outcome(name) or NOTHING for name in names}
    faults = [outcome for outcome in outcomes.values() if isinstance(outcome, Fault)]
    if faults and all(
        isinstance(outcome, Fault) or not state.view(name).devices for name, outcome in outcomes.items()
    ):
        raise faults[0].told(shape.names)
    verdict = "none"
    if EXHAUSTED in outcomes.values():
        verdict = "budget"
    elif any(state.view(name).invalid is not None for name in names):
        verdict = "node"
    return Refusal(explain(state, shape, names, outcomes), verdict)
