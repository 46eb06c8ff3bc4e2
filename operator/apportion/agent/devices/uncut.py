"""What backends have in common whose cards are used whole: nothing is cut, and the verbs of cutting have an answer.

In: what such a card is called. Out: no partitions, and refusals that name the place. RDMA devices and generic devices are such.
"""

from collections.abc import Collection

from apportion.agent.devices.values import LivePartition, PartitionPlace
from apportion.errors import Unsupported


class UncutBackend:
    """The part of `Backend` that is about partitions."""

    def __init__(self, what: str) -> None:
        """`what` stands for a card in refusals: `an RDMA device`."""
        self._what = what

    def partitions(self, cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:  # noqa: ARG002 - the protocol's
        """List nothing: such devices are not cut."""
        return ()

    def partitions_of(self, card: str) -> tuple[LivePartition, ...]:  # noqa: ARG002 - the protocol's
        """List nothing: such devices are not cut."""
        return ()

    def create(self, place: PartitionPlace) -> LivePartition:
        """Refuse: such devices are not cut."""
        raise Unsupported(f"{place}: {self._what} cannot be cut")

    def destroy(self, live: LivePartition) -> None:
        """Refuse: such devices are not cut."""
        raise Unsupported(f"{live.place}: {self._what} cannot be cut")

    def make_whole(self, card: str) -> None:
        """Do nothing: such devices are always whole."""
