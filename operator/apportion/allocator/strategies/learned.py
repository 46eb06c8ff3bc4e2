"""LearnedDemand: the demand expected from past claims, and the scorer that keeps room for it.

In: queries of claims, one at a time. Out: a scorer, which stays the same until the demand mix or the device sets change.
"""

from collections import OrderedDict

from apportion.allocator.equivalence.nodestate import NodeStates
from apportion.allocator.facts.host import HostResources
from apportion.allocator.pricing.demandhistory import DemandHistory, HostDemandHistory, TypicalHostDemand
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.prices import CutStatesCache, DemandPrices
from apportion.allocator.pricing.scarcity import ClusterState, Scarcity
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.strategies.leastfragmentation import LeastFragmentation

MOST_MIXES = 16
"""Mixes whose scorers are kept: the learnt one, and one per AllocationPolicy that names its own."""


class LearnedDemand:
    """The learnt demand of one state."""

    def __init__(self, selectors: SelectorLookup) -> None:
        self._selectors = selectors
        self._history = DemandHistory()
        self._host_history = HostDemandHistory()
        self._cut_states = CutStatesCache()
        self._scorers: OrderedDict[DemandMix, LeastFragmentation] = OrderedDict()
        self._current: tuple[DemandMix, LeastFragmentation] | None = None

    def learn(self, asked: Query, host: HostResources | None = None) -> None:
        """Count a query. `host`: cpu and memory that its pods request, if there are pods."""
        self._history.note(asked)
        if host is not None:
            self._host_history.note(asked, host)

    @property
    def typical(self) -> TypicalHostDemand:
        """Return what recent pods requested, by query."""
        return self._host_history.typical

    def scorer(
        self, cluster: ClusterState, node_states: NodeStates, mix: DemandMix | None = None
    ) -> LeastFragmentation:
        """Return the scorer for a mix; None: for the learnt mix."""
        current = self._history.mix if mix is None else mix
        found = (
            self._scorers.get(current)
            if self._current is None or self._current[0] is not current
            else self._current[1]
        )
        if found is None:
            found = self._make(current)
        version = found.scarcity.version
        found.scarcity.catch_up(cluster, node_states, self._history.latest if mix is None else mix)
        if found.scarcity.has_places:
            found.scarcity.catch_up_places(cluster, self._host_history.typical)
        if found.scarcity.version != version:
            # Earlier outcomes are void: rankings recognise them by their scorer.
            found = self._make(current, found.scarcity)
        self._current = current, found
        return found

    def _make(self, mix: DemandMix, scarcity: Scarcity | None = None) -> LeastFragmentation:
        prices = DemandPrices(mix, self._cut_states, self._selectors)
        found = self._scorers[mix] = LeastFragmentation(prices, scarcity)
        if len(self._scorers) > MOST_MIXES:
            self._scorers.popitem(last=False)
        return found
