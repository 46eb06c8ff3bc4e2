"""Spread: share the load. The emptiest node first, on it the emptiest device."""

from collections.abc import Sequence

from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Score
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import Search
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over, loss


class Spread(Scorer):
    """Prefer devices and nodes that nobody uses."""

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
                    -traits.room(index),
                    -around,
                    tuple(-free for free in traits.crowd(index)),
                    self._shared(search, index),
                    lost,
                    index,
                )
                for lost, around, index in traits.losses(mask)
            )
        ]

    def score(self, search: Search) -> Score:
        """Rate by what is left on the node, the most first."""
        return -left_over(search), loss(search)

    def _shared(self, search: Search, index: int) -> int:
        used = search.view.used.get(index, {})
        return sum(used.values()) + sum(search.shares.get(index, {}).values())
