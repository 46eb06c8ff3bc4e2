"""BestFit as published: the node with the least left, whatever it is (weights of the paper's simulator)."""

from collections.abc import Sequence

from bench.openb.worth.free import Ask, Free
from bench.openb.worth.way import Way

CPU, DEVICES = 128_000, 8_000
"""The published policy measures what is left in a node of 128 cores and 8 devices."""


class BestFit:
    """The reference policy."""

    def ways(self, free: Free, ask: Ask) -> Sequence[Way]:
        """Score the node; a share goes to the device with the least room that holds it."""
        left_cpu = (free.cpu - ask.cpu) / CPU / 2
        left_devices = (sum(free.rooms) - ask.size) / DEVICES / 2
        after = min(free.ways(ask), key=lambda way: tuple(sorted(way.rooms)))
        return (Way(int(100 * (1 - left_cpu - left_devices)), after),)

    def prices(self) -> Sequence[float]:
        """Nothing changes its price."""
        return ()

    def placed(self, before: Free, after: Free) -> None:
        """Nothing is learnt."""
