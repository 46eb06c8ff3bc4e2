"""Pack: keep whole what is whole. The least loss first, then the fullest node."""

from collections.abc import Sequence

from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Outcome, Score
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import Search
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over, loss
from apportion.allocator.strategies.singledevice import single_device


class Pack(Scorer):
    """Prefer devices and nodes that are in use already."""

    reads = frozenset(NEIGHBOUR_ATTRIBUTES)

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those whose taking makes the fewest others impossible."""
        traits = DeviceTraits(search, candidates, mask)
        prefer = search.prefer
        return [
            key[-1]
            for key in sorted(
                (-prefer.get(index, 0), traits.room(index), lost, around, traits.crowd(index), index)
                for lost, around, index in traits.losses(mask)
            )
        ]

    def score(self, search: Search) -> Score:
        """Rate by placements lost, then by what is left on the node."""
        return loss(search), left_over(search)

    def shortcut(
        self, view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the outcome of a query for one device."""
        return single_device(view, query, selectors, shared=shared)
