"""allocate(): the one question that the allocator answers.

In: a state and a demand. Out: a decision, or a refusal that says why. Pure: no clock, no I/O, no randomness; the same
state and demand give the same answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apportion.allocator.counters import bits
from apportion.allocator.decision import Decision, Refusal, Verdict
from apportion.allocator.demand import Demand
from apportion.allocator.explain import explain
from apportion.allocator.fault import Fault
from apportion.allocator.outcome import BROKEN, EXHAUSTED, NOTHING, Outcome, Solved, solve
from apportion.allocator.ranking import Ranking
from apportion.allocator.result import ShareIds, allocations, derived_share_ids
from apportion.allocator.score.first_fit import FirstFit
from apportion.allocator.score.pack import Pack
from apportion.allocator.score.spread import Spread
from apportion.allocator.score.strategy import Scorer, Strategy
from apportion.allocator.search import STEPS
from apportion.allocator.shape import Shape, resolve
from apportion.allocator.state import State
from apportion.dra.device import DeviceId

SCORERS: Mapping[Strategy, Scorer] = {
    Strategy.FIRST_FIT: FirstFit(),
    Strategy.PACK: Pack(),
    Strategy.SPREAD: Spread(),
    Strategy.LEAST_FRAGMENTATION: Pack(),
}

FEW = 16
"""Candidate nodes that are searched directly while a shape is new."""


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
    question = Question(state, demand, shape, _ranking(state, shape, strategy, steps), prefer or {}, steps)
    found = question.best()
    if found is None:
        return question.refusal()
    name, solved = found
    made = allocations(
        state.view(name), shape, shape.names, solved.picks, share_ids or derived_share_ids(demand.seed)
    )
    return Decision(name, made)


def _ranking(state: State, shape: Shape, strategy: Strategy, steps: int) -> Ranking:
    # Answers found with another budget are not mixed with the usual ones.
    found = state.ranking(shape, strategy) if steps == STEPS else None
    if found is None:
        found = Ranking(SCORERS[strategy])
        if steps == STEPS:
            state.remember(shape, strategy, found)
    return found


@dataclass(slots=True)
class Question:
    """One call of `allocate`, with all it needs."""

    state: State
    demand: Demand
    shape: Shape
    ranking: Ranking
    prefer: Mapping[DeviceId, int]
    steps: int
    special: dict[str, Outcome] = field(init=False)
    """Nodes that this demand alone sees as they are: answers that are not remembered."""

    def __post_init__(self) -> None:
        self.special = self._special()

    def best(self) -> tuple[str, Solved] | None:
        """Return the node to take with its picks, None if no node serves."""
        special = self.special
        known = self.state.names()
        scans = self.ranking.scorer.scans
        few = self.demand.nodes is not None and self.demand.nodes <= special.keys() | (
            self.demand.nodes - known.keys()
        )
        for name in () if few else self.ranking.catch_up(self.state):
            if scans and name in known:
                self.ranking.learn(name, self._solve(name))
        names = known if self.demand.nodes is None else [name for name in self.demand.nodes if name in known]
        if not scans:
            return self._first(sorted(names), special)
        if self.demand.nodes is None and not special:
            return self.ranking.best()
        usual = self.ranking.best_of(name for name in names if name not in special)
        for name, outcome in special.items():
            if isinstance(outcome, Solved) and (
                usual is None
                or (outcome.ranks, outcome.score, name) < (usual[1].ranks, usual[1].score, usual[0])
            ):
                usual = name, outcome
        return usual

    def refusal(self) -> Refusal:
        """Return why nothing was found; raises BrokenInput where all nodes that have devices failed on them."""
        names = sorted(self._names())
        special = self.special
        outcomes = {name: special.get(name) or self.ranking.outcome(name) or NOTHING for name in names}
        faults = [outcome for outcome in outcomes.values() if isinstance(outcome, Fault)]
        if faults and all(
            isinstance(outcome, Fault) or not self.state.view(name).devices
            for name, outcome in outcomes.items()
        ):
            raise faults[0].told(self.shape.names)
        verdict: Verdict = "none"
        if EXHAUSTED in outcomes.values():
            verdict = "budget"
        elif BROKEN in outcomes.values():
            verdict = "node"
        # A claim that waits asks again and again: nothing was touched since, so nothing is found out anew.
        usual = self.demand.nodes is None and not special
        if usual and isinstance(self.ranking.refusal, Refusal):
            kept = self.ranking.refusal
            if kept.explanation.claims == tuple(claim.key for claim in self.demand.claims):
                return kept
        refusal = Refusal(explain(self.state, self.shape, names, outcomes), verdict)
        if usual:
            self.ranking.refusal = refusal
        return refusal

    def _names(self) -> set[str]:
        known = set(self.state.names())
        return known if self.demand.nodes is None else known & self.demand.nodes

    def _solve(self, name: str, prefer: Mapping[int, int] | None = None, excluded: int = 0) -> Outcome:
        return solve(
            self.state.view(name),
            self.shape,
            self.ranking.scorer,
            self.state.answers,
            steps=self.steps,
            prefer=prefer,
            excluded=excluded,
        )

    def _first(self, names: Iterable[str], special: Mapping[str, Outcome]) -> tuple[str, Solved] | None:
        for name in names:
            outcome = special.get(name) or self.ranking.outcome(name)
            if outcome is None:
                outcome = self._solve(name)
                self.ranking.learn(name, outcome)
            if isinstance(outcome, Solved):
                return name, outcome
        return None

    def _special(self) -> dict[str, Outcome]:
        """Search the nodes anew whose devices this demand alone sees differently: preferred or excluded ones."""
        named: dict[str, None] = {}
        for device in (*sorted(self.prefer), *sorted(self.demand.excluded)):
            for name in self.state.nodes_of(device):
                if self.demand.nodes is None or name in self.demand.nodes:
                    named[name] = None
        found: dict[str, Outcome] = {}
        for name in named:
            index = self.state.view(name).index
            excluded = sum(1 << index[device] for device in self.demand.excluded if device in index)
            wanted = self._wanted(name)
            if excluded or wanted:
                found[name] = self._solve(name, wanted, excluded)
        few = self.demand.nodes is not None and len(self.demand.nodes) <= FEW
        if few and self.ranking.is_new:
            # A question about a few nodes that nobody asked before is not worth a look at all nodes.
            for name in sorted(self._names() - found.keys()):
                found[name] = self._solve(name)
        return found

    def _wanted(self, name: str) -> dict[int, int]:
        """Return the preferred devices of a node that some request could take."""
        view = self.state.view(name)
        here = {view.index[device]: worth for device, worth in self.prefer.items() if device in view.index}
        if not here:
            return here
        mask = 0
        for slot in self.shape.slots:
            for want in slot.wants:
                mask |= view.selected(want, self.state.answers)[0]
        return {index: here[index] for index in bits(mask) if index in here}
