"""NodeChoice: which node is best for a demand, or why none is.

In: the state, a demand, the ranking of its query. Out: the best node with its picks; or a refusal with its explanation.
Outcomes are kept in the ranking, except those that only this demand gets (preferred or excluded devices).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.decision import Refusal, Verdict
from apportion.allocator.explain.explain import EXAMINED, explain
from apportion.allocator.hostcomparison import HostComparison
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.nodeoutcomes import NodeOutcomes
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.ranking.ranking import SortKey, sort_key
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.search.outcome import BROKEN, EXHAUSTED, NOTHING, Outcome, Solved
from apportion.allocator.search.search import Pick

Candidate: TypeAlias = tuple[SortKey, str, Solved]
"""A node that can serve, with what it is compared by."""

FEW_NODES = 16
"""Candidate nodes that are searched directly while a query is new."""


@dataclass(slots=True)
class NodeChoice(NodeOutcomes):
    """One call of `allocate`, with its own view of some nodes."""

    stranding: Stranding | None
    """What cpu and memory beside devices are worth; None: devices alone decide."""
    special: dict[str, Outcome] = field(init=False)
    """Outcomes of nodes where this demand prefers or excludes devices; the ranking does not keep these."""

    def __post_init__(self) -> None:
        self.special = (
            self._special() if self.prefer or self.demand.excluded or self.demand.nodes is not None else {}
        )

    def best(self) -> tuple[str, Solved] | None:
        """Return the node to take with its picks, None if no node serves."""
        special, ranking, wanted = self.special, self.ranking, self.demand.nodes
        if wanted is None or not wanted <= special.keys() | (wanted - self.state.names().keys()):
            ranking.catch_up(self.outcome_of_state if ranking.shared else self.outcome_of_node)
        comparison = self._comparison()
        if wanted is None and not special and comparison is None and ranking.scorer.scans:
            return self._best_ranked()
        known = self.state.names()
        names = known if wanted is None else [name for name in wanted if name in known]
        if not ranking.scorer.scans:
            return self._first(sorted(names))
        if isinstance(ranking, RankedStates) and 2 * len(names) > len(known):
            return self._cheapest(self._exceptions_and_best(ranking, comparison))
        return self._cheapest(self._rated(names, comparison))

    def _comparison(self) -> HostComparison | None:
        """Return how nodes compare where cpu or memory is short; None where devices alone decide."""
        if self.demand.host is None or self.stranding is None:
            return None
        found = HostComparison(self.state, self.named.query, self.demand.host, self.stranding)
        return found if found.nodes else None

    def _best_ranked(self) -> tuple[str, Solved] | None:
        """Pop estimates best first, searching each, until a searched node leads."""
        ranking = self.ranking
        while (found := ranking.best()) is not None and not found[1].has_picks:
            name = found[0]
            searched = self.solve(name) if ranking.shared else self.outcome_of_node(name, has_picks=True)
            ranking.correct(name, searched)
        return found

    def _exceptions_and_best(
        self, ranking: RankedStates, comparison: HostComparison | None
    ) -> list[Candidate]:
        """Return the nodes that must be looked at one by one, and the best of the others."""
        known = self.state.names()
        wanted = known if self.demand.nodes is None else self.demand.nodes
        apart = {name for device in self.prefer for name in self.state.nodes_of(device)} | self.special.keys()
        if comparison is not None:
            apart |= comparison.nodes

        def allowed(name: str) -> bool:
            return name in wanted and name not in apart

        found = self._rated([name for name in apart if name in known and name in wanted], comparison)
        while (best := ranking.first(allowed)) is not None and not best[1].has_picks:
            ranking.correct(best[0], self.solve(best[0]))
        if best is not None:
            found.append((sort_key(ranking.scorer, best[1], best[0]), *best))
        return found

    def _rated(self, names: Iterable[str], comparison: HostComparison | None) -> list[Candidate]:
        """Return those of these nodes that can serve."""
        scorer = self.ranking.scorer
        found: list[Candidate] = []
        for name in names:
            outcome = self.special.get(name) or self.ranking.outcome(name)
            constrained = comparison is not None and name in comparison.nodes
            if constrained and isinstance(outcome, Solved) and not outcome.has_picks:
                outcome = self.solve(name)
            if isinstance(outcome, Solved):
                key = sort_key(scorer, outcome, name)
                if comparison is not None and constrained:
                    key = comparison.sort_key(key, outcome)
                found.append((key, name, outcome))
        return found

    def _cheapest(self, found: list[Candidate]) -> tuple[str, Solved] | None:
        """Pop candidates best first, searching those only estimated, until a searched one leads."""
        if self.ranking.scorer.values_idle and self.prefer:
            return self._best_counting_idle(found)
        heapify(found)
        while found:
            _, name, solved = heappop(found)
            if solved.has_picks:
                return name, solved
            self._search(name, found)
        return None

    def _search(self, name: str, heap: list[Candidate]) -> None:
        """Search an estimated node and push it back: estimates are optimistic."""
        outcome = self.solve(name)
        if isinstance(outcome, Solved):
            heappush(heap, (sort_key(self.ranking.scorer, outcome, name), name, outcome))

    def _best_counting_idle(self, found: list[Candidate]) -> tuple[str, Solved] | None:
        """Return the best node, counting idle partitions that would be destroyed; only where they could matter."""
        heapify(found)
        sure: Candidate | None = None
        # What is destroyed only adds to a key, so a node behind the best sure one needs no look.
        while found and (sure is None or found[0][0] < sure[0]):
            (ranks, score, name), _, outcome = heappop(found)
            if not outcome.has_picks:
                self._search(name, found)
                continue
            lost = self._destroyed(name, outcome.picks)
            here = (ranks, (score[0], score[1] + lost, *score[2:]), name), name, outcome
            if sure is None or here[0] < sure[0]:
                sure = here
        return (sure[1], sure[2]) if sure is not None else None

    def _destroyed(self, name: str, picks: Sequence[Pick]) -> int:
        view = self.state.view(name)
        idle = self._preferred(view)
        return self.ranking.scorer.destroyed(view, picks, idle) if idle else 0

    def refusal(self) -> Refusal:
        """Return why nothing was found; raises BrokenInput where all nodes that have devices failed on them."""
        names = sorted(self._names())
        special = self.special
        outcomes = {name: special.get(name) or self.ranking.outcome(name) or NOTHING for name in names}
        errors = [name for name, outcome in outcomes.items() if isinstance(outcome, NodeError)]
        if errors and all(
            isinstance(outcome, NodeError) or not self.state.view(name).devices
            for name, outcome in outcomes.items()
        ):
            raise self._own_error(errors[0], outcomes[errors[0]]).as_broken_input(self.named.names)
        for name in errors[:EXAMINED]:
            outcomes[name] = self._own_error(name, outcomes[name])
        verdict: Verdict = "none"
        # By identity: thousands of comparisons of values take longer than the rest.
        verdicts = set(map(id, outcomes.values()))
        if id(EXHAUSTED) in verdicts:
            verdict = "budget"
        elif id(BROKEN) in verdicts:
            verdict = "node"
        # A claim that waits asks again and again: nothing was touched since, so nothing is found out anew.
        usual = self.demand.nodes is None and not special
        asked = self.state.moment, self.named.query, tuple(claim.key for claim in self.demand.claims)
        kept = self.ranking.refusal
        if usual and isinstance(kept, Refusal) and self.ranking.refused == asked:
            return kept
        known = self.ranking.diagnoses if self.ranking.shared else None
        explanation = explain(self.state, self.named, names, outcomes, known, special.keys())
        refusal = Refusal(explanation, verdict, self.query)
        if usual:
            self.ranking.refusal, self.ranking.refused = refusal, asked
        return refusal

    def _own_error(self, name: str, outcome: Outcome) -> NodeError:
        """Return the error as it reads on the node itself: it may have been found on another node of its state."""
        found = outcome if name in self.special else self.solve(name)
        if not isinstance(found, NodeError):  # nodes of one state have equal outcomes
            raise TypeError(f"node {name} answered {found} where one of the same state failed")
        return found

    def _names(self) -> set[str]:
        known = set(self.state.names())
        return known if self.demand.nodes is None else known & self.demand.nodes

    def _first(self, names: Iterable[str]) -> tuple[str, Solved] | None:
        for name in names:
            outcome = self.special.get(name) or self.known_or_solved(name)
            if isinstance(outcome, Solved):
                return name, outcome
        return None

    def _special(self) -> dict[str, Outcome]:
        """Return the outcomes of nodes on which this demand prefers or excludes devices."""
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
        few = self.demand.nodes is not None and len(self.demand.nodes) <= FEW_NODES
        if few and self.ranking.is_new:
            # The first query about a few nodes is not worth a look at all nodes.
            for name in sorted(self._names() - found.keys()):
                found[name] = self.solve(name)
        return found

    def _solve_specially(self, name: str, wanted: Mapping[int, int], excluded: int) -> Outcome:
        """Search a node with preferred or excluded devices; nodes of one state with the same ones share the outcome."""
        ranking = self.ranking
        if not ranking.shared or not self.reuse:
            return self.solve(name, wanted, excluded)
        key = self.node_states.of(name), tuple(sorted(wanted.items())), excluded
        found = ranking.special.get(key)
        if found is None:
            found = self.solve(name, wanted, excluded)
            # An error's text names devices, so it is each node's own.
            if not isinstance(found, NodeError):
                ranking.special[key] = found
        return found

    def _wanted(self, name: str) -> dict[int, int]:
        """Return the preferred devices of a node that some request could take."""
        view = self.state.view(name)
        here = self._preferred(view)
        if not here:
            return here
        mask = 0
        for slot in self.query.slots:
            for alternative in slot.alternatives:
                mask |= view.selected(alternative, self.state.selectors)[0]
        return {index: here[index] for index in bits(mask) if index in here}

    def _preferred(self, view: NodeView) -> dict[int, int]:
        """Return the preferred devices of a node, and how good each is."""
        return {
            index: worth for device, worth in self.prefer.items() if (index := view.find(device)) is not None
        }
