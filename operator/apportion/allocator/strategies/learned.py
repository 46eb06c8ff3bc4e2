"""The demand that is to come, and the scorer that keeps room for it.

In: what claims asked for, one at a time. Out: a scorer, the same one until the mix has moved enough to be priced anew.
"""

from collections import OrderedDict

from apportion.allocator.equivalence.nodestate import NodeStates
from apportion.allocator.facts.host import HostResources
from apportion.allocator.pricing.demandhistory import DemandHistory
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.hostdemand import HostDemandHistory, TypicalHostDemand
from apportion.allocator.pricing.prices import CutStatesCache, DemandPrices
from apportion.allocator.pricing.scarcity import ClusterState, Scarcity
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation

MOST_MIXES = 16
"""Mixes that are priced at a time: the one learnt, and one per AllocationPolicy that gives its own."""


class LearnedDemand:
    """Belongs to one state; changed by `learn` only."""

    def __init__(self, selectors: SelectorLookup) -> None:
        self._selectors = selectors
        self._recent = DemandHistory()
        self._needs = HostDemandHistory()
        self._cut_states = CutStatesCache()
        self._scorers: OrderedDict[DemandMix, LeastFragmentation] = OrderedDict()
        self._current: tuple[DemandMix, LeastFragmentation] | None = None

    def learn(self, asked: Query, host: HostResources | None = None) -> None:
        """Learn what was asked for. `host`: what the pods request beside devices, if there are pods."""
        self._recent.note(asked)
        if host is not None:
            self._needs.note(asked, host)

    @property
    def typical(self) -> TypicalHostDemand:
        """Return what pods of late requested beside devices."""
        return self._needs.typical

    def scorer(
        self, cluster: ClusterState, node_states: NodeStates, mix: DemandMix | None = None
    ) -> LeastFragmentation:
        """Return the scorer for a mix; None: for the one that was learnt."""
        wanted = self._recent.mix if mix is None else mix
        found = (
            self._scorers.get(wanted)
            if self._current is None or self._current[0] is not wanted
            else self._current[1]
        )
        if found is None:
            found = self._make(wanted)
        version = found.scarcity.version
        found.scarcity.catch_up(cluster, node_states, self._recent.latest if mix is None else mix)
        if found.scarcity.version != version:
            # Answers given before are void, and go with their scorer.
            found = self._make(wanted, found.scarcity)
        self._current = wanted, found
        return found

    def _make(self, mix: DemandMix, scarcity: Scarcity | None = None) -> LeastFragmentation:
        prices = DemandPrices(mix, self._cut_states, self._selectors)
        found = self._scorers[mix] = LeastFragmentation(prices, scarcity)
        if len(self._scorers) > MOST_MIXES:
            self._scorers.popitem(last=False)
        return found
