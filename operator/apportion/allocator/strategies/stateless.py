"""FirstFit, Pack and Spread: strategies that keep nothing between claims. One scorer of each serves all states."""

from collections.abc import Mapping, Sequence

from apportion.allocator.bits import bits
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Outcome, Score
from apportion.allocator.search.scorer import Scorer, Strategy
from apportion.allocator.search.search import Search
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over, loss
from apportion.allocator.strategies.singledevice import single_device


class FirstFit(Scorer):
    """Upstream's order, for comparison with kube-scheduler: nodes by name; pools, slices and devices as published."""

    scans = False

    def order(self, _search: Search, _candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices in their published order."""
        return tuple(bits(mask))

    def score(self, _search: Search) -> Score:
        """Rate all nodes alike: the first by name wins."""
        return ()


class Pack(Scorer):
    """Prefer devices and nodes in use: the least loss first, then the fullest node."""

    reads = frozenset(NEIGHBOUR_ATTRIBUTES)

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those that make the fewest placements impossible."""
        traits = DeviceTraits(search, candidates, mask)
        return traits.packed(traits.losses(mask))

    def score(self, search: Search) -> Score:
        """Rate by placements lost, then by what is left on the node."""
        return loss(search), left_over(search)

    def shortcut(
        self, view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the outcome of a query for one device."""
        return single_device(view, query, selectors, shared=shared)


class Spread(Scorer):
    """Prefer devices and nodes that are free: the emptiest node first, on it the emptiest device."""

    reads = frozenset(NEIGHBOUR_ATTRIBUTES)

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those with the most free around them."""
        traits = DeviceTraits(search, candidates, mask)
        prefer = search.prefer
        return [
            key[-1]
            for key in sorted(
                (
                    -prefer.get(index, 0),
                    -traits.agreeing(index),
                    -around,
                    tuple(-free for free in traits.crowd(index)),
                    self._used(search, index),
                    lost,
                    index,
                )
                for lost, around, index in traits.losses(mask)
            )
        ]

    def score(self, search: Search) -> Score:
        """Rate by what is left on the node, the most first."""
        return -left_over(search), loss(search)

    def _used(self, search: Search, index: int) -> int:
        """Return the capacity of a shared device that shares use, all capacities added."""
        used = search.view.used.get(index, {})
        return sum(used.values()) + sum(search.shares.get(index, {}).values())


STATELESS: Mapping[Strategy, Scorer] = {
    Strategy.FIRST_FIT: FirstFit(),
    Strategy.PACK: Pack(),
    Strategy.SPREAD: Spread(),
}
"""Every strategy but LeastFragmentation, whose scorer belongs to a state."""
