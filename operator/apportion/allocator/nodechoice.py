"""NodeChoice: choose the best node for a demand, or explain why none can serve.

In: the state, a demand, the ranking of its query. Out: the best node with its picks; or a refusal with its explanation.
Outcomes are kept in the ranking, except those that depend on this demand alone (preferred or excluded devices).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Self

from apportion.allocator.decision import Refusal, Verdict
from apportion.allocator.explain.explain import EXAMINED, MOST_GROUPS, explain
from apportion.allocator.hostcomparison import HostComparison
from apportion.allocator.hostranking import Candidate, HostRanking, Rate, Rated
from apportion.allocator.nodesteps import NodeSteps
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.ranking.ranking import LEAST_STEPS, SortKey, sort_key, with_cost
from apportion.allocator.rules.query import NodeError
from apportion.allocator.search.outcome import BROKEN, CUT_SHORT, EXHAUSTED, NOTHING, Outcome, Solved
from apportion.allocator.search.search import Pick
from apportion.allocator.search.searchbudget import SearchBudget

MANY_SHORT = 4
"""Where one of so many nodes is short of cpu or memory, a new request gets a ranking with both; else a request that comes again."""
FEW_SHORT = 16
"""The keys of fewer short nodes are computed for each demand."""
MANY_BARRED = 8
"""Where fewer than one of so many nodes is allowed, only the allowed nodes are compared."""


@dataclass(slots=True)
class NodeChoice(NodeSteps):
    """One call of `allocate`, with the outcomes that only this demand has."""

    special: dict[str, Outcome] = field(default_factory=dict)
    """Outcomes of nodes where this demand prefers or excludes devices, which `begun` searches; the ranking does not keep these."""

    def begun(self) -> Self:
        """Search the nodes where this demand prefers or excludes devices: all else needs their outcomes."""
        if self.prefer or self.demand.excluded or self.demand.nodes is not None:
            self.special = self.special_outcomes()
        return self

    def best(self) -> tuple[str, Solved] | None:
        """Return the best node with its picks; None if no node can serve."""
        special, ranking, allowed = self.special, self.ranking, self.demand.nodes
        known = self.state.names()
        follows = allowed is None or any(name not in special and name in known for name in allowed)
        if follows:
            ranking.catch_up(self.by_state() if ranking.shared else self.by_node())
        comparison = self._comparison()
        if allowed is None and not special and comparison is None and ranking.scorer.scans:
            return self._best_ranked()
        if follows and comparison is not None and self._ranks_hosts(comparison):
            return self._cheapest(self._exceptions_and_best_by_host(comparison))
        most = allowed is None or 2 * len(allowed) > len(known)
        if most and ranking.scorer.scans and isinstance(ranking, RankedStates):
            return self._cheapest(self._exceptions_and_best(ranking, comparison))
        names = known if allowed is None else [name for name in allowed if name in known]
        if not ranking.scorer.scans:
            return self._first(sorted(names))
        if isinstance(ranking, RankedStates):
            names = self.node_states.representatives(names, self._exceptions(comparison))
        return self._cheapest(self._rated(names, comparison))

    def serving(self) -> frozenset[str]:
        """Return the allowed nodes that can serve."""
        self.ranking.catch_up(self.by_state() if self.ranking.shared else self.by_node())
        known, allowed = self.state.names(), self.demand.nodes
        return frozenset(
            name
            for name in (known if allowed is None else allowed)
            if name in known and isinstance(self.ranking.outcome(name), Solved)
        )

    def _best_ranked(self) -> tuple[str, Solved] | None:
        """Search the best node while it is only estimated; return the first searched one that leads."""
        ranking = self.ranking
        while (found := ranking.best()) is not None and not found[1].has_picks:
            name = found[0]
            searched = self.solve(name) if ranking.shared else self.by_node(searched=True)(name)
            ranking.correct(name, searched)
        return found

    def _exceptions_and_best(
        self, ranking: RankedStates, comparison: HostComparison | None
    ) -> list[Candidate]:
        """Return the nodes that need a key of their own, and the best of the others."""
        known = self.state.names()
        nodes = known if self.demand.nodes is None else self.demand.nodes
        exceptions = self._exceptions(comparison)

        def allowed(name: str) -> bool:
            return name in nodes and name not in exceptions

        candidates = self._rated([name for name in exceptions if name in known and name in nodes], comparison)
        while (best := ranking.first(allowed)) is not None and not best[1].has_picks:
            ranking.correct(best[0], self.solve(best[0]))
        if best is not None:
            candidates.append((sort_key(ranking.scorer, best[1], best[0]), *best))
        return candidates

    def _exceptions(self, comparison: HostComparison | None = None) -> set[str]:
        """Return the nodes for which others of their state do not stand."""
        short = comparison.nodes if comparison is not None else ()
        return set(self.special).union(short, *(self.state.nodes_of(device) for device in self.prefer))

    def _ranks_hosts(self, comparison: HostComparison) -> bool:
        """Say whether nodes are ranked by cpu and memory too: many are short of them, or some and the request is not new."""
        known, nodes, short = self.state.names(), self.demand.nodes, len(comparison.nodes)
        if not self.reuse or short < min(FEW_SHORT, len(known) / MANY_SHORT):
            return False
        kept = self.ranking.host_rankings
        ranking: HostRanking | None = kept.get(comparison.requested)
        if ranking is None:
            ranking = kept[comparison.requested] = HostRanking(comparison.requested)
            if MANY_SHORT * short < len(known):
                return False
        few = nodes is not None and MANY_BARRED * len(nodes) < len(known)
        return nodes is None or not few or 2 * len(nodes) > len(known) - len(ranking.unfit)

    def _exceptions_and_best_by_host(self, comparison: HostComparison) -> list[Candidate]:
        """Return the nodes that need a key of their own, and the best of the others by devices, cpu and memory."""
        known = self.state.names()
        nodes = known if self.demand.nodes is None else self.demand.nodes
        ranking: HostRanking = self.ranking.host_rankings[comparison.requested]
        lasting = comparison.lasting()
        rate = self._lasting_rate(lasting)
        ranking.catch_up(self.state, comparison.version, rate, shared=self.ranking.shared)
        exceptions = self._exceptions().union(comparison.taken)
        exceptions.update(ranking.unfit if self.demand.nodes is None else ranking.unfit & self.demand.nodes)

        def allowed(name: str) -> bool:
            return name in nodes and name not in exceptions

        candidates = self._rated([name for name in exceptions if name in known and name in nodes], comparison)
        scorer, contend = self.ranking.scorer, lasting.contention
        while (best := ranking.best(scorer, allowed, contend)) is not None and not best[2].has_picks:
            name = best[1]
            ranking.correct(name, rate(name, self.searched(name)))
        if best is not None:
            candidates.append(best)
        return candidates

    def _lasting_rate(self, comparison: HostComparison) -> Rate:
        """Return the function that rates a node for every demand: without preferred devices and the present cost of contention.

        Hot path: all it needs is local.
        """
        outcome_of, searched = self.ranking.outcome, self.searched
        constrained, score = comparison.nodes, comparison.score

        def rate(name: str, outcome: Outcome | None = None) -> Rated | None:
            if outcome is None:
                outcome = outcome_of(name)
            if name not in constrained:
                return (outcome.score, outcome) if isinstance(outcome, Solved) else None
            if isinstance(outcome, Solved) and not outcome.has_picks:
                outcome = searched(name)
            return (score(name, outcome), outcome) if isinstance(outcome, Solved) else None

        return rate

    def _rated(self, names: Iterable[str], comparison: HostComparison | None) -> list[Candidate]:
        """Return the candidates among these nodes."""
        scorer = self.ranking.scorer
        candidates: list[Candidate] = []
        for name in names:
            outcome = self.special.get(name) or self.ranking.outcome(name)
            constrained = comparison is not None and name in comparison.nodes
            if constrained and isinstance(outcome, Solved) and not outcome.has_picks:
                outcome = self.searched(name)
            if isinstance(outcome, Solved):
                score, contention = outcome.score, outcome.contention
                if comparison is not None and constrained:
                    score, contention = comparison.score(name, outcome), comparison.contention(name, outcome)
                key: SortKey = outcome.ranks, score, name
                candidates.append((with_cost(scorer, key, contention), name, outcome))
        return candidates

    def _cheapest(self, candidates: list[Candidate]) -> tuple[str, Solved] | None:
        """Pop candidates best first, searching those only estimated, until a searched one leads."""
        if self.ranking.scorer.values_idle and self.prefer:
            return self._best_counting_idle(candidates)
        heapify(candidates)
        while candidates:
            _, name, solved = heappop(candidates)
            if solved.has_picks:
                return name, solved
            self._search(name, candidates)
        return None

    def _search(self, name: str, heap: list[Candidate]) -> None:
        """Search an estimated node and push it back: estimates are optimistic."""
        outcome = self.solve(name)
        if isinstance(outcome, Solved):
            heappush(heap, (sort_key(self.ranking.scorer, outcome, name), name, outcome))

    def _best_counting_idle(self, candidates: list[Candidate]) -> tuple[str, Solved] | None:
        """Return the best node, counting the idle partitions that the picks would destroy."""
        heapify(candidates)
        best: Candidate | None = None
        # Destroyed partitions only add to a key, so candidates behind the best need none of this.
        while candidates and (best is None or candidates[0][0] < best[0]):
            (ranks, score, name), _, outcome = heappop(candidates)
            if not outcome.has_picks:
                self._search(name, candidates)
                continue
            lost = self._destroyed(name, outcome.picks)
            key = ranks, (score[0], score[1] + lost, *score[2:]), name
            if best is None or key < best[0]:
                best = key, name, outcome
        return best[1:] if best is not None else None

    def _destroyed(self, name: str, picks: Sequence[Pick]) -> int:
        view = self.state.view(name)
        idle = self.preferred(view)
        return self.ranking.scorer.destroyed(view, picks, idle) if idle else 0

    def refusal(self) -> Refusal:
        """Return the refusal; raises BrokenInput if every node that has devices failed on them."""
        demand, ranking = self.demand, self.ranking
        # A full cluster with a queue: all waiting claims of one query are refused for one reason.
        circumstances = self.state.moment, self.named.query, demand.nodes, demand.excluded, self.prefer
        kept = ranking.refusal
        if isinstance(kept, Refusal) and ranking.refused == circumstances:
            ranking.refused = circumstances  # compared by identity the next time, as a rule
            return replace(kept, explanation=kept.explanation.named(self._keys()))
        refusal = self._refusal()
        # An error names the claim in a text.
        if all(group.kind != "error" for group in refusal.explanation.groups):
            ranking.refusal, ranking.refused = refusal, circumstances
        return refusal

    def _refusal(self) -> Refusal:
        names = sorted(self.names())
        outcomes = self._exceptional(names)
        errors = {name: found for name, found in outcomes.items() if isinstance(found, NodeError)}
        if errors and all(
            isinstance(outcomes.get(name), NodeError) or not self.state.view(name).devices for name in names
        ):
            raise self._own_error(*next(iter(errors.items()))).as_broken_input(self.named.names)
        for name, error in islice(errors.items(), MOST_GROUPS):
            outcomes[name] = self._own_error(name, error)
        verdict: Verdict = "none"
        # By identity: comparing thousands of outcomes by value would take longer than the rest.
        verdicts = set(map(id, outcomes.values()))
        if not verdicts.isdisjoint([id(EXHAUSTED), id(CUT_SHORT)]):
            verdict = "budget"
        elif id(BROKEN) in verdicts:
            verdict = "node"
        diagnoses = self.ranking.diagnoses if self.ranking.shared else None
        explanation = explain(self.state, self.named, names, outcomes, diagnoses, self._barred())
        return Refusal(explanation, verdict, self.query)

    def _barred(self) -> set[str]:
        """Return the nodes that would serve the demand if it excluded no devices, as far as few steps tell."""
        found = {name for device in self.demand.excluded for name in self.state.nodes_of(device)}
        barred = sorted(found & self.names())[:EXAMINED]
        budget = SearchBudget(max(LEAST_STEPS // 8, 8 * LEAST_STEPS // max(1, len(barred))))
        return {name for name in barred if isinstance(self.solve(name, budget=budget), Solved)}

    def _exceptional(self, names: Iterable[str]) -> dict[str, Outcome]:
        """Return the outcomes that have another reason than too few devices, by node."""
        special, ranking = self.special, self.ranking
        if not special and ranking.ordinary:
            return {}
        found = {name: special.get(name) or ranking.outcome(name) or NOTHING for name in names}
        return {name: outcome for name, outcome in found.items() if outcome is not NOTHING}

    def _keys(self) -> tuple[str, ...]:
        return tuple([claim.key for claim in self.demand.claims])

    def _own_error(self, name: str, error: NodeError) -> NodeError:
        """Return the error of this node, where few steps reach it; the kept one may name devices of another node of its state."""
        if not self.ranking.shared:
            return error
        prefer, excluded = self.own(name, [*self.prefer, *self.demand.excluded])
        own = self.solve(name, prefer, excluded, SearchBudget(LEAST_STEPS))
        return own if isinstance(own, NodeError) else error

    def _first(self, names: Iterable[str]) -> tuple[str, Solved] | None:
        for name in names:
            outcome = self.special.get(name) or self.known_or_solved(name)
            if isinstance(outcome, Solved):
                return name, outcome
        return None
