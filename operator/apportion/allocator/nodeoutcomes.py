"""What nodes answer to one question: by what is remembered of those that look alike, by a glance, or by a search.

In: the state, the question's shape, its ranking. Out: outcomes, which the ranking keeps.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from apportion.allocator.closeness.scorer import LadderScorer
from apportion.allocator.demand import Demand
from apportion.allocator.equivalence.nodestate import NodeState, NodeStates
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import Outcome, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import STEPS
from apportion.allocator.search.solve import solve
from apportion.allocator.state import State
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation
from apportion.allocator.strategies.pack import Pack
from apportion.allocator.strategies.singledevice import single_device
from apportion.allocator.strategies.spread import Spread
from apportion.dra.device import DeviceId

READS: Mapping[type[Scorer], frozenset[str]] = {
    Pack: frozenset(NEIGHBOUR_ATTRIBUTES),
    Spread: frozenset(NEIGHBOUR_ATTRIBUTES),
}
"""Attributes that a strategy looks at; of others it is not known."""

FEW_KINDS = 8
"""So few kinds that it does not pay to ask what a claim sees of them."""


@dataclass(slots=True)
class NodeOutcomes:
    """One call of `allocate`, with all it needs."""

    state: State
    standings: NodeStates
    demand: Demand
    shape: NamedQuery
    asked: NamedQuery
    """The same with the meaning that stands for all that match the same: nodes answer this one."""
    ranking: RankedNodes | RankedStates
    prefer: Mapping[DeviceId, int]
    steps: int

    def _stand(self, standing: NodeState, ranking: RankedStates) -> Outcome:
        """Answer for all nodes of a standing; kinds that differ in what the claim cannot see answer alike."""
        name = standing.first()
        reads = READS.get(type(ranking.scorer))
        if reads is None or self.state.kinds <= FEW_KINDS:
            return self._solve(name)
        foot = standing.kind.footprint(self.asked.meaning, reads, self.state.answers)
        if foot is None:
            return self._solve(name)
        sight = foot, self.state.view(name).holdings
        found = ranking.alike.recall(sight)
        if found is None:
            found = self._solve(name)
            # A fault names the node's own device.
            if not isinstance(found, NodeError):
                ranking.alike.note(sight, found)
        return found

    def _see(self, name: str, ranking: RankedNodes, *, chosen: bool = False) -> Outcome:
        """Answer for one node; those that stand alike and whose devices match alike answer alike.

        `chosen`: with devices, a glance does not do.
        """
        sight = self._sight(name)
        found = ranking.alike.recall(sight) if sight is not None else None
        if found is None or (chosen and isinstance(found, Solved) and not found.chosen):
            found = (None if chosen else self._glance(name)) or self._solve(name)
            # A fault names the node's own device.
            if sight is not None and not isinstance(found, NodeError):
                ranking.alike.note(sight, found)
        return found

    def _sight(self, name: str) -> object:
        """Return all that the claim sees of a node, where no selector can say more than which devices it accepts."""
        meaning = self.asked.meaning
        view = self.state.view(name)
        scorer = self.ranking.scorer
        if not meaning.plain or view.kind is None or view.peculiar:
            return None
        if not view.kind.agrees([rule.attribute for rule in meaning.rules]):
            return None
        if isinstance(scorer, LadderScorer) and not self.state.recall.alike(scorer.ladder):
            return None
        masks: list[int] = []
        for slot in meaning.slots:
            for want in slot.wants:
                mask, errors = view.selected(want, self.state.answers)
                if errors:
                    return None
                masks.append(mask)
        return self.standings.of(name), tuple(masks)

    def _glance(self, name: str) -> Outcome | None:
        """Return what a node would answer, without picks, where that can be told."""
        scorer = self.ranking.scorer
        if not isinstance(scorer, LeastFragmentation) or self.steps != STEPS:
            return None
        return scorer.glance.outcome(self.state.view(name), self.asked, self.state.answers)

    def _outcome(self, name: str) -> Outcome | None:
        """Return what is known of a node without its special view."""
        if isinstance(self.ranking, RankedStates):
            return self.ranking.outcome(self.standings.of(name))
        return self.ranking.outcome(name)

    def _learn(self, name: str) -> Outcome:
        outcome = self._solve(name)
        if isinstance(self.ranking, RankedStates):
            self.ranking.learn(self.standings.of(name), outcome)
        else:
            self.ranking.learn(name, outcome)
        return outcome

    def _solve(self, name: str, prefer: Mapping[int, int] | None = None, excluded: int = 0) -> Outcome:
        view = self.state.view(name)
        scorer = self.ranking.scorer
        if not prefer and not excluded and self.steps == STEPS:
            found = None
            shared = isinstance(self.ranking, RankedStates)
            if isinstance(scorer, Pack):
                found = single_device(view, self.asked, self.state.answers, shared=shared)
            elif isinstance(scorer, LeastFragmentation):
                found = scorer.one.outcome(view, self.asked, self.state.answers, shared=shared)
            if found is not None:
                return found
        return solve(
            view,
            self.asked,
            self.ranking.scorer,
            self.state.answers,
            steps=self.steps,
            prefer=prefer,
            excluded=excluded,
        )
