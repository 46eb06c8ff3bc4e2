"""One question to the allocator: which node is best for a demand, or why none is.

In: the state, a demand, the ranking of its shape. Out: the best node with its picks; or a refusal with its explanation.
What nodes answer is remembered in the ranking; answers that only this demand gets (preferred or excluded devices) are not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.decision import Refusal, Verdict
from apportion.allocator.explain.explain import EXAMINED, explain
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.nodeoutcomes import NodeOutcomes
from apportion.allocator.precompute import catch_up
from apportion.allocator.pricing.idlepartitions import worth_destroyed
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.ranking.sortkey import SortKey, sort_key
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.search.outcome import BROKEN, EXHAUSTED, NOTHING, Outcome, Solved
from apportion.allocator.search.search import STEPS, Pick
from apportion.allocator.stranded import Stranded
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation

MOST_SPECIAL = 4096
"""Answers with preferred or excluded devices that are kept per ranking."""

Candidate: TypeAlias = tuple[SortKey, str, Solved]
"""A node that can serve, by what it is compared by."""

FEW = 16
"""Candidate nodes that are searched directly while a shape is new."""


@dataclass(slots=True)
class NodeChoice(NodeOutcomes):
    """One call of `allocate`, with its own view of some nodes."""

    special: dict[str, Outcome] = field(init=False)
    """Nodes that this demand alone sees as they are: answers that are not remembered."""

    def __post_init__(self) -> None:
        self.special = (
            self._special() if self.prefer or self.demand.excluded or self.demand.nodes is not None else {}
        )

    def best(self) -> tuple[str, Solved] | None:
        """Return the node to take with its picks, None if no node serves."""
        special = self.special
        ranking = self.ranking
        wanted = self.demand.nodes
        if wanted is None or not wanted <= special.keys() | (wanted - self.state.names().keys()):
            self._catch_up()
        stranded = Stranded.of(self.state, self.demand, self.shape, ranking.scorer)
        if wanted is None and not special and stranded is None and ranking.scorer.scans:
            return (
                self._best_named(ranking)
                if isinstance(ranking, RankedNodes)
                else self._best_standing(ranking)
            )
        known = self.state.names()
        names = known if wanted is None else [name for name in wanted if name in known]
        if not ranking.scorer.scans:
            return self._first(sorted(names), special)
        if isinstance(ranking, RankedStates) and 2 * len(names) > len(known):
            return self._cheapest(self._beside(ranking, stranded))
        return self._cheapest(self._rated(names, stranded))

    def _beside(self, roster: RankedStates, stranded: Stranded | None) -> list[Candidate]:
        """Return the nodes that must be looked at one by one, and the best of the others."""
        known = self.state.names()
        wanted = known if self.demand.nodes is None else self.demand.nodes
        apart = {name for device in self.prefer for name in self.state.nodes_of(device)} | self.special.keys()
        if stranded is not None:
            apart |= stranded.nodes

        def allowed(name: str) -> bool:
            return name in wanted and name not in apart

        found = self._rated([name for name in apart if name in known and name in wanted], stranded)
        while (best := roster.first(allowed)) is not None and not best[2].chosen:
            roster.correct(best[1], self._solve(best[0]))
        if best is not None:
            found.append((sort_key(roster.scorer, best[2], best[0]), best[0], best[2]))
        return found

    def _rated(self, names: Iterable[str], stranded: Stranded | None) -> list[Candidate]:
        """Return what these nodes answer, as far as they can serve."""
        scorer = self.ranking.scorer
        found: list[Candidate] = []
        for name in names:
            outcome = self.special.get(name) or self._outcome(name)
            tight = stranded is not None and name in stranded.nodes
            if tight and isinstance(outcome, Solved) and not outcome.chosen:
                outcome = self._solve(name)
            if isinstance(outcome, Solved):
                here = sort_key(scorer, outcome, name)
                found.append((stranded.place(here, outcome) if stranded and tight else here, name, outcome))
        return found

    def _cheapest(self, found: list[Candidate]) -> tuple[str, Solved] | None:
        """Return the best of these; glances are told apart first."""
        scorer = self.ranking.scorer
        if isinstance(scorer, LeastFragmentation) and self.prefer:
            return self._sparing(found, scorer)
        heapify(found)
        while found:
            _, name, solved = heappop(found)
            if solved.chosen:
                return name, solved
            self._choose(name, found)
        return None

    def _choose(self, name: str, heap: list[Candidate]) -> None:
        """Put a node back with its devices: a glance may have been too good."""
        asked = self._solve(name)
        if isinstance(asked, Solved):
            heappush(heap, (sort_key(self.ranking.scorer, asked, name), name, asked))

    def _best_named(self, ranking: RankedNodes) -> tuple[str, Solved] | None:
        while (found := ranking.best()) is not None and not found[1].chosen:
            ranking.learn(found[0], self._see(found[0], ranking, chosen=True))
        return found

    def _best_standing(self, roster: RankedStates) -> tuple[str, Solved] | None:
        while (found := roster.best()) is not None and not found[1].chosen:
            roster.correct(found[0], self._solve(found[0].first()))
        return (found[0].first(), found[1]) if found is not None else None

    def _sparing(self, found: list[Candidate], scorer: LeastFragmentation) -> tuple[str, Solved] | None:
        """Return the best node, counting idle partitions that would be destroyed; only where they could matter."""
        heapify(found)
        sure: Candidate | None = None
        # What is destroyed only adds to a place, so a node behind the best sure one needs no look.
        while found and (sure is None or found[0][0] < sure[0]):
            (ranks, score, name), _, outcome = heappop(found)
            if not outcome.chosen:
                self._choose(name, found)
                continue
            lost = self._destroyed(scorer, name, outcome.picks)
            here = (ranks, (score[0], score[1] + lost, *score[2:]), name), name, outcome
            if sure is None or here[0] < sure[0]:
                sure = here
        return (sure[1], sure[2]) if sure is not None else None

    def _destroyed(self, scorer: LeastFragmentation, name: str, picks: Sequence[Pick]) -> int:
        view = self.state.view(name)
        idle = self._preferred(view)
        return worth_destroyed(view, scorer.outlook, picks, idle) if idle else 0

    def _catch_up(self) -> None:
        ranking = self.ranking
        if isinstance(ranking, RankedStates):
            scorer = ranking.scorer
            if isinstance(scorer, LeastFragmentation) and self.steps == STEPS:
                catch_up(self.state, self.standings, self.asked, ranking, scorer)
                return
            for standing in ranking.catch_up(self.standings):
                if scorer.scans:
                    ranking.learn(standing, self._stand(standing, ranking))
            return
        for name in ranking.catch_up(self.state):
            if ranking.scorer.scans and name in self.state.names():
                ranking.learn(name, self._see(name, ranking))

    def refusal(self) -> Refusal:
        """Return why nothing was found; raises BrokenInput where all nodes that have devices failed on them."""
        names = sorted(self._names())
        special = self.special
        outcomes = {name: special.get(name) or self._outcome(name) or NOTHING for name in names}
        faults = [name for name, outcome in outcomes.items() if isinstance(outcome, NodeError)]
        if faults and all(
            isinstance(outcome, NodeError) or not self.state.view(name).devices
            for name, outcome in outcomes.items()
        ):
            raise self._own_fault(faults[0], outcomes[faults[0]]).told(self.shape.names)
        for name in faults[:EXAMINED]:
            outcomes[name] = self._own_fault(name, outcomes[name])
        verdict: Verdict = "none"
        # By identity: thousands of comparisons of values take longer than the rest.
        told = set(map(id, outcomes.values()))
        if id(EXHAUSTED) in told:
            verdict = "budget"
        elif id(BROKEN) in told:
            verdict = "node"
        # A claim that waits asks again and again: nothing was touched since, so nothing is found out anew.
        usual = self.demand.nodes is None and not special
        asked = self.state.moment, self.shape.meaning, tuple(claim.key for claim in self.demand.claims)
        kept = self.ranking.refusal
        if usual and isinstance(kept, Refusal) and self.ranking.refused == asked:
            return kept
        known = self.ranking.diagnoses if isinstance(self.ranking, RankedStates) else None
        explanation = explain(self.state, self.shape, names, outcomes, known, special.keys())
        refusal = Refusal(explanation, verdict, self.asked.meaning)
        if usual:
            self.ranking.refusal, self.ranking.refused = refusal, asked
        return refusal

    def _own_fault(self, name: str, outcome: Outcome) -> NodeError:
        """Return the fault as it reads on the node itself: it may have been found on another that stands alike."""
        found = outcome if name in self.special else self._solve(name)
        if not isinstance(found, NodeError):  # nodes that stand alike give the same answers
            raise TypeError(f"node {name} answered {found} where one like it failed")
        return found

    def _names(self) -> set[str]:
        known = set(self.state.names())
        return known if self.demand.nodes is None else known & self.demand.nodes

    def _first(self, names: Iterable[str], special: Mapping[str, Outcome]) -> tuple[str, Solved] | None:
        for name in names:
            outcome = special.get(name) or self._outcome(name) or self._learn(name)
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
            view = self.state.view(name)
            here = {view.find(device) for device in self.demand.excluded}
            excluded = sum(1 << index for index in here if index is not None)
            wanted = self._wanted(name)
            if excluded or wanted:
                found[name] = self._solve_specially(name, wanted, excluded)
        few = self.demand.nodes is not None and len(self.demand.nodes) <= FEW
        if few and self.ranking.is_new:
            # A question about a few nodes that nobody asked before is not worth a look at all nodes.
            for name in sorted(self._names() - found.keys()):
                found[name] = self._solve(name)
        return found

    def _solve_specially(self, name: str, wanted: Mapping[int, int], excluded: int) -> Outcome:
        """Search a node that this demand sees differently; nodes that stand alike and look alike are searched once."""
        ranking = self.ranking
        if not isinstance(ranking, RankedStates) or self.steps != STEPS:
            return self._solve(name, wanted, excluded)
        key = self.standings.of(name), tuple(sorted(wanted.items())), excluded
        found = ranking.special.get(key)
        if found is None:
            found = self._solve(name, wanted, excluded)
            # A fault's text names devices, so it is each node's own.
            if not isinstance(found, NodeError):
                if len(ranking.special) >= MOST_SPECIAL:
                    ranking.special.clear()
                ranking.special[key] = found
        return found

    def _wanted(self, name: str) -> dict[int, int]:
        """Return the preferred devices of a node that some request could take."""
        view = self.state.view(name)
        here = self._preferred(view)
        if not here:
            return here
        mask = 0
        for slot in self.asked.slots:
            for want in slot.wants:
                mask |= view.selected(want, self.state.answers)[0]
        return {index: here[index] for index in bits(mask) if index in here}

    def _preferred(self, view: NodeView) -> dict[int, int]:
        """Return the preferred devices of a node, and how good each is."""
        return {
            index: worth for device, worth in self.prefer.items() if (index := view.find(device)) is not None
        }
