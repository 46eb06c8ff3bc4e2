"""BestFit as published: choose the node with the least free cpu and devices (weights of the paper's simulator)."""

from collections.abc import Sequence

from bench.openb.model import FreeNode, Placement, PodRequest

CPU, DEVICES = 128_000, 8_000
"""The published policy measures free resources relative to a node of 128 cores and 8 devices."""


class BestFit:
    """Best fit by cpu and devices; implements `bench.openb.policy.Policy`."""

    def placements(self, free: FreeNode, request: PodRequest) -> Sequence[Placement]:
        """Return one placement: a share takes the device with the least free milli that fits it."""
        left_cpu = (free.cpu - request.cpu) / CPU / 2
        left_devices = (sum(free.free_milli) - request.total_milli) / DEVICES / 2
        after = min(free.after_placing(request), key=lambda node: tuple(sorted(node.free_milli)))
        return (Placement(int(100 * (1 - left_cpu - left_devices)), after),)

    def prices(self) -> Sequence[float]:
        """Return no prices: BestFit counts no places."""
        return ()

    def placed(self, before: FreeNode, after: FreeNode) -> None:
        """Do nothing: BestFit depends on the node alone."""
