"""FirstFit: upstream's order, for comparison with kube-scheduler."""

from collections.abc import Sequence

from apportion.allocator.bits import bits
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Score
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import Search


class FirstFit(Scorer):
    """Nodes by name; pools, slices and devices in their own order."""

    scans = False

    def order(self, _search: Search, _option: Candidates, mask: int) -> Sequence[int]:
        """Return the devices as they come."""
        return tuple(bits(mask))

    def score(self, _search: Search) -> Score:
        """Rate all alike: the first node by name wins."""
        return ()
