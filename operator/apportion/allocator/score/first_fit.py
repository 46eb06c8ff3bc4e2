"""FirstFit: upstream's order, for comparison with kube-scheduler."""

from collections.abc import Sequence

from apportion.allocator.counters import bits
from apportion.allocator.options import Option
from apportion.allocator.score.strategy import Score
from apportion.allocator.search import Search


class FirstFit:
    """Nodes by name; pools, slices and devices in their own order."""

    scans = False

    def order(self, _search: Search, _option: Option, mask: int) -> Sequence[int]:
        """Return the devices as they come."""
        return tuple(bits(mask))

    def score(self, _search: Search) -> Score:
        """Rate all alike: the first node by name wins."""
        return ()
