"""NodeOutcomes: outcomes of nodes for one demand: kept, estimated, or searched.

In: a state, a query, its ranking. Out: the outcome of a node. Outcomes by observable key are kept in the ranking.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass

from apportion.allocator.demand import Demand
from apportion.allocator.equivalence.nodestate import NodeState, NodeStates
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.ranking import Answer, Ranking
from apportion.allocator.rules.query import NamedQuery, NodeError, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import CUT_SHORT, Outcome, Solved
from apportion.allocator.search.searchbudget import SearchBudget
from apportion.allocator.search.solve import solve
from apportion.allocator.state import State
from apportion.dra.device import DeviceId

FEW_CLASSES = 8
"""Up to so many node classes, keys over what a query observes cost more than they save."""

MANY_CHANGES = 256
"""Changed node states from which on outcomes are computed in advance: fewer cost the next claim little."""

MOST_RANKINGS = 16
"""Rankings brought up to date in advance: those used last."""


FEW_NODES = 16
"""A demand for at most so many nodes searches them directly while its query has no ranking."""


@dataclass(slots=True)
class NodeOutcomes:
    """The arguments of one call of `allocate`, and what is derived from them."""

    state: State
    node_states: NodeStates
    demand: Demand
    named: NamedQuery
    """The demand's own query and names."""
    query: Query
    """The representative of all queries that match the same devices on every known class; outcomes are those of this query."""
    ranking: Ranking
    prefer: Mapping[DeviceId, int]
    reuse: bool
    """Whether shortcuts, estimates and kept outcomes are used; else every node is searched."""
    steps: int
    pauses: bool
    """Whether searches pause after a slice, with `Paused`."""

    def by_state(self) -> Callable[[str], Outcome]:
        """Return the function that computes the outcome of a node's state by the name of one of its nodes."""
        if self.ranking.scorer.reads is None or self.state.class_count <= FEW_CLASSES:
            return outcomes_by_state(
                self.state, self.node_states, self.ranking, self.query, pauses=self.pauses
            )
        return self._outcome_of_state

    def _outcome_of_state(self, name: str) -> Outcome:
        """Return the outcome of the node's state; classes that differ in what the query cannot observe share it."""
        state, ranking = self.state, self.ranking
        scorer, query = ranking.scorer, self.query
        view = state.view(name)
        node_state = self.node_states.of(name)
        observable = (
            node_state.node_class.query_key(query, scorer.reads, state.selectors)
            if scorer.reads is not None
            else None
        )
        if observable is None:
            return _outcome(ranking, query, view, state.selectors, node_state, self.pauses)
        key = observable, view.holdings
        found = ranking.observed.get(key)
        if found is None or (found is CUT_SHORT and ranking.gives_all_steps):
            found = _outcome(ranking, query, view, state.selectors, node_state, self.pauses)
            # An error names the node's own device.
            if not isinstance(found, NodeError):
                ranking.observed[key] = found
        return found

    def by_node(self, *, searched: bool = False) -> Callable[[str], Outcome]:
        """Return the function that computes the outcome of a node by its name. Hot path: all it needs is local.

        Nodes of one state on which the same devices match share an outcome, unless the query may observe more on them.
        `searched`: outcomes are searched, not estimated.
        """
        if not self.reuse:
            return self.solve
        query, ranking, solve, selectors = self.query, self.ranking, self.solve, self.state.selectors
        scorer, observed = ranking.scorer, ranking.observed
        view_of, state_of = self.state.view, self.node_states.of
        attributes = [constraint.attribute for constraint in query.constraints]
        cache = self.state.query_cache
        sharing = query.counted and cache.comparable(scorer) and cache.knows(query.amounts)

        def outcome(name: str) -> Outcome:
            view = view_of(name)
            node_class = view.node_class
            matched = None
            # A class without columns has one node, whose errors name its pools or attributes.
            if (
                sharing
                and node_class is not None
                and node_class.columns is not None
                and (not attributes or node_class.agrees(attributes))
            ):
                matched = view.matched(query, selectors)
            key = None if matched is None else (state_of(name), matched)
            found = observed.get(key) if key is not None else None
            if found is CUT_SHORT:
                found = ranking.known(found)
            if found is None or (searched and not has_picks(found)):
                estimate = None if searched else scorer.estimate(view, query, selectors)
                found = estimate or solve(name)
                # An error names the node's own device.
                if key is not None and not isinstance(found, NodeError):
                    observed[key] = found
            return found

        return outcome

    def known_or_solved(self, name: str) -> Outcome:
        """Return the kept outcome of a node, else a searched one, which the ranking then keeps."""
        found = self.ranking.outcome(name)
        if found is None:
            found = self.solve(name)
            self.ranking.learn(name, found)
        return found

    def solve(
        self,
        name: str,
        prefer: Mapping[int, int] | None = None,
        excluded: int = 0,
        budget: SearchBudget | None = None,
    ) -> Outcome:
        """Return the outcome of one node with its picks. `budget`: of a search for an explanation, which costs later searches nothing."""
        view = self.state.view(name)
        query, scorer, selectors = self.query, self.ranking.scorer, self.state.selectors
        if self.reuse and not prefer and not excluded:
            found = scorer.shortcut(view, query, selectors, shared=self.ranking.shared)
            if found is not None:
                return found
        ranking, counts = self.ranking, self.reuse and budget is None
        if budget is None:
            budget = ranking.budget(pauses=self.pauses) if counts else SearchBudget(self.steps)
        found = solve(view, query, scorer, selectors, budget, prefer=prefer, excluded=excluded)
        return ranking.counted(found) if counts else found

    def searched(self, name: str) -> Outcome:
        """Return the outcome of one node with its picks; nodes of one state share it where they have equal ones. An error may name devices of another one."""
        ranking = self.ranking
        if not self.reuse:
            return self.solve(name)
        if isinstance(ranking, RankedNodes):
            current = ranking.current(name)
            if current is None or not has_picks(current):
                current = self.by_node(searched=True)(name)
                ranking.learn(name, current)
            return current
        node_state = self.node_states.of(name)
        found = ranking.known(ranking.searched.get(node_state))
        if found is None:
            found = ranking.searched[node_state] = self.solve(name)
        return found

    def singled_out(self) -> dict[str, list[DeviceId]]:
        """Return the devices that this demand prefers or excludes, by node."""
        found: dict[str, list[DeviceId]] = {}
        for device in (*sorted(self.prefer), *sorted(self.demand.excluded)):
            for name in self.state.nodes_of(device):
                if self.demand.nodes is None or name in self.demand.nodes:
                    found.setdefault(name, []).append(device)
        return found

    def own(self, name: str, devices: Iterable[DeviceId]) -> tuple[dict[int, int], int]:
        """Return those of a node's devices that are preferred and match some request, with their bonus, and those that are excluded."""
        view, prefer = self.state.view(name), self.prefer
        found = [(index, device) for device in devices if (index := view.find(device)) is not None]
        preferred = {index: prefer[device] for index, device in found if device in prefer}
        barred = {index for index, device in found if device in self.demand.excluded}
        matching = 0
        for alternative in self.query.alternatives if preferred else ():
            matching |= view.selected(alternative, self.state.selectors)[0]
        usable = {index: bonus for index, bonus in sorted(preferred.items()) if matching >> index & 1}
        return usable, sum(1 << index for index in barred)

    def own_by_node(self) -> dict[str, tuple[dict[int, int], int]]:
        """Return the same of all nodes that have such devices."""
        named = self.singled_out().items()
        return {name: own for name, devices in named if any(own := self.own(name, devices))}

    def preferred(self, view: NodeView) -> dict[int, int]:
        """Return the preferred devices of a node with their bonus."""
        return {
            index: bonus for device, bonus in self.prefer.items() if (index := view.find(device)) is not None
        }

    def names(self) -> set[str]:
        """Return the known nodes that the demand allows."""
        known = set(self.state.names())
        return known if self.demand.nodes is None else known & self.demand.nodes

    def special_outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes of nodes on which this demand prefers or excludes devices."""
        special = {name: self.solve_special(name, *own) for name, own in self.own_by_node().items()}
        few = self.demand.nodes is not None and len(self.demand.nodes) <= FEW_NODES
        if few and self.ranking.is_new:
            # For a few nodes a new query is not worth the outcomes of all nodes.
            for name in sorted(self.names() - special.keys()):
                special[name] = self.searched(name)
        return special

    def special_key(self, name: str, prefer: Mapping[int, int], excluded: int) -> object:
        """Return the key of an outcome with preferred or excluded devices."""
        return self.ranking.version(name), tuple(sorted(prefer.items())), excluded

    def solve_special(self, name: str, prefer: Mapping[int, int], excluded: int) -> Outcome:
        """Return the outcome with preferred or excluded devices; nodes of one state with equal ones share it, as in `searched`."""
        ranking = self.ranking
        if not self.reuse:
            return self.solve(name, prefer, excluded)
        key = self.special_key(name, prefer, excluded)
        found = ranking.known(ranking.special.get(key))
        if found is None:
            found = ranking.special[key] = self.solve(name, prefer, excluded)
        return found


def has_picks(outcome: Outcome) -> bool:
    """Say whether an outcome is that of a search; else it is an estimate."""
    return outcome.has_picks if isinstance(outcome, Solved) else True


def outcomes_by_state(
    state: State, node_states: NodeStates, ranking: Ranking, query: Query, *, pauses: bool
) -> Answer:
    """Return the function that computes the outcome of a node's state by node name. Hot path: all it needs is local."""
    view, selectors, node_state = state.view, state.selectors, node_states.of
    return lambda name: _outcome(ranking, query, view(name), selectors, node_state(name), pauses)


def _outcome(
    ranking: Ranking,
    query: Query,
    view: NodeView,
    selectors: SelectorLookup,
    node_state: NodeState,
    pauses: bool,  # noqa: FBT001 - hot path
) -> Outcome:
    budget = ranking.budget(pauses=pauses)
    return ranking.counted(ranking.scorer.outcome(view, query, selectors, node_state, budget))


def precompute(
    state: State, *, many: int = MANY_CHANGES, stops: Callable[[], bool] = lambda: False
) -> Generator[None, None, bool]:
    """While no pod waits, compute the outcomes of recently changed nodes in advance, and say whether some are left. Changes no outcome.

    Yields after each, and after each slice of a search that takes long; the next call does the rest where something changes meanwhile, or
    something else `stops` it.
    """
    node_states, moment = state.settle(), state.moment
    end = node_states.log.end
    if end - state.precomputed_until < many:
        return False
    scorer = state.scorer()
    for ranking in state.query_cache.latest(MOST_RANKINGS):
        if ranking.scorer is scorer and ranking.behind() >= many:
            paused, whole = (
                outcomes_by_state(state, node_states, ranking, ranking.query, pauses=pauses)
                for pauses in (True, False)
            )
            for _ in ranking.advancing(paused):
                yield
                if stops() or state.moment != moment or node_states.log.end != end:
                    return True
            ranking.catch_up(whole)
    state.precomputed_until = end
    return False
