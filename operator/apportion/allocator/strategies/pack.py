"""Pack: keep whole what is whole. The least loss first, then the fullest node."""

from collections.abc import Sequence

from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.scorer import Score
from apportion.allocator.search.search import Search
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over, loss


class Pack:
    """Prefer devices and nodes that are in use already."""

    scans = True

    def order(self, search: Search, option: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those whose taking makes the fewest others impossible."""
        traits = DeviceTraits(search, option, mask)
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
