"""The protocol between the agent and a vendor's library.

In: nothing but spots and live partitions. Out: what is there, or a HardwareError. The verbs are synchronous, because
the vendors' libraries are: the agent calls them in threads, one call per card at a time (`hardware.py`).
"""

from collections.abc import Mapping
from typing import Protocol

from apportion.agent.devices.values import Card, Health, LivePartition, PartitionPlace


class Backend(Protocol):
    """One family of devices on this node. Stateless between calls: the hardware is the state."""

    def devices(self) -> tuple[Card, ...]:
        """Discover the cards, in a stable order, with every profile that they can be cut into."""

    def incomplete(self) -> bool:
        """Say whether a card did not answer at the last discovery: it may answer the next one."""

    def partitions(self) -> tuple[LivePartition, ...]:
        """List every partition that exists, foreign and half-made ones included.

        A card that does not answer shows what was last seen on it, and counts as sick or lost in `health`.
        """

    def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """List what exists on one card now.

        Raises HardwareError when that cannot be told, also for a card that did not answer at discovery: whoever
        decides by it must not take unknown for gone. A card that this backend has never had has nothing on it.
        """

    def create(self, place: PartitionPlace) -> LivePartition:
        """Make a partition at exactly this place.

        Raises NoRoom when the place or an engine is taken, Unsupported for an unknown profile, Busy when the driver
        asks to come back, Lost when the card does not answer. A crash inside may leave a half-made partition, which
        `partitions` then shows as not complete.
        """

    def destroy(self, live: LivePartition) -> None:
        """Remove exactly this partition; one that is gone, or has another UUID by now, is left alone.

        Raises Busy when something uses it, Lost when the card does not answer.
        """

    def make_whole(self, card: str) -> None:
        """Make a card that has no partitions usable uncut (MIG mode off); done already is fine.

        Raises Busy while it has partitions or something uses it, Unsupported where it takes a reset by hand.
        """

    def health(self) -> Mapping[str, Health]:
        """Say how the cards are, by name; a card that is not named is healthy."""
