"""The interface of a vendor's backend.

In: places and live partitions. Out: what is on the hardware, or a HardwareError. The methods are synchronous because the
vendors' libraries are; `hardware.py` calls them in threads, several at a time, with one changing call per card.
"""

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

from apportion.agent.devices.values import Card, Edits, Health, LivePartition, PartitionPlace


class Backend(Protocol):
    """One family of devices on this node. Nothing is remembered between calls: the hardware is the state.

    A backend of one card that is used whole; the agent publishes it as device `gpu-0`:

    >>> from apportion.agent.devices.values import CardKind, DeviceNode, Edits, Location
    >>> from apportion.errors import Unsupported
    >>> class OneCard:
    ...     def devices(self):
    ...         location = Location("0000:17:00.0", "pci0000:16", numa_node=0)
    ...         return (Card("gpu-0", CardKind.GPU, "GPU-1", location, {"productName": "One"}),)
    ...     def edits(self, card):
    ...         return Edits(nodes=(DeviceNode("/dev/vendor0"),))
    ...     def incomplete(self):
    ...         return False  # every card has answered
    ...     def partitions(self, cards=None):
    ...         return ()
    ...     def partitions_of(self, card):
    ...         return ()
    ...     def create(self, place):
    ...         raise Unsupported(f"{place}: this card cannot be cut")
    ...     def destroy(self, live):
    ...         raise Unsupported(f"{live.place}: this card cannot be cut")
    ...     def make_whole(self, card):
    ...         pass  # it is always whole
    ...     def health(self, cards=None):
    ...         return {}  # cards that are not named are healthy
    >>> backend: Backend = OneCard()
    >>> [(card.name, card.kind.value) for card in backend.devices()]
    [('gpu-0', 'gpu')]

    A card that can be cut has `totals` and `profiles` too; the agent then calls `create` and `destroy` with places of these.
    """

    def devices(self) -> tuple[Card, ...]:
        """Discover the cards, in a stable order, with every profile that they can be cut into."""

    def incomplete(self) -> bool:
        """Say whether a card did not answer at the last discovery; the agent then discovers again from time to time."""

    def edits(self, card: str) -> Edits:
        """Return what a container needs for a whole card, as card and host are now.

        Device numbers change when a driver binds a card anew, and driver files when a host is upgraded: nothing of it is
        kept from discovery. The card is found by its UUID. Raises HardwareError when it cannot be asked.
        """

    def partitions(self, cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:
        """List every partition that exists, foreign and half-made ones included; on these cards only, if some are named.

        A card that does not answer shows what was last seen on it, and counts as sick or lost in `health`.
        """

    def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """List what exists on one card now.

        Raises HardwareError when that cannot be known, also for a card that did not answer at discovery: unknown must not
        be taken for gone. For a card that this backend never had it returns nothing.
        """

    def create(self, place: PartitionPlace) -> LivePartition:
        """Make a partition at exactly this place.

        Raises NoRoom when the place or an engine is taken, Unsupported for an unknown profile, Occupied while programs
        keep the card from being cut, Busy when the driver asks to come back and may make it yet, Lost when the card does not
        answer. A crash inside may leave a half-made partition, which `partitions` then shows as not complete.
        """

    def destroy(self, live: LivePartition) -> None:
        """Remove exactly this partition; one that is gone, or has another UUID by now, is left alone.

        Raises Busy when something uses it, Lost when the card does not answer.
        """

    def make_whole(self, card: str) -> None:
        """Make a card that has no partitions usable uncut (MIG mode off); done already is fine.

        Raises Busy while it has partitions or something uses it, Unsupported where it takes a reset by hand.
        """

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the health of cards by name, of these only if some are named; a card that is not in it is healthy."""


@runtime_checkable
class OnFabric(Protocol):
    """A backend of cards that reach each other through a fabric, which comes up after them."""

    def fabric_cards(self) -> Collection[str]:
        """Return the cards that belong to a fabric."""

    def fabric(self, card: str) -> str:
        """Return why a card has not joined its fabric, one word; "" when it has. Raises HardwareError when it cannot be asked."""


@runtime_checkable
class Releasable(Protocol):
    """A backend whose driver can be exchanged under the running agent."""

    def release(self, why: str) -> None:
        """Let go of the driver for the rest of the process; cards are shown as last seen. `why` is for people."""

    def answers(self) -> bool:
        """Say whether a driver answers since it was let go of: the agent then starts anew."""
