"""Groups: the devices of one node that draw from the same counters.

In: what nodes built alike share about a group. Out: one light object per node, with the group's state now.
"""

from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.node.counters import GroupState, GroupType
from apportion.allocator.node.groupoccupancy import GroupOccupancy


class GroupTemplate(NamedTuple):
    """What a group is on every node that is built alike."""

    pool: int
    """Position of the pool on the node."""
    members: tuple[int, ...]
    """Positions of the devices on the node."""
    make: GroupType
    counters: tuple[tuple[str, str], ...]
    totals: tuple[int, ...]
    mask: int
    base: int | None
    """First member, where the members follow each other."""
    fresh: GroupState
    """With nothing in use."""


class CounterGroup:
    """One group on one node."""

    __slots__ = ("base", "counters", "fresh", "make", "mask", "members", "spot", "state", "totals")

    def __init__(self, cast: GroupTemplate) -> None:
        self.members = cast.members
        self.make = cast.make
        self.counters = cast.counters
        self.totals = cast.totals
        self.mask = cast.mask
        self.base = cast.base
        self.fresh = cast.fresh
        """With nothing in use."""
        self.state: GroupState = cast.fresh
        self.spot: GroupOccupancy = cast.make.spot(cast.fresh, 0)

    def enter(self, spot: GroupOccupancy) -> None:
        """Take over what is held now."""
        self.spot = spot
        self.state = spot.state

    def spread(self, local: int) -> int:
        """Turn bits of the group into bits of the node."""
        if self.base is not None:
            return local << self.base
        return sum(1 << self.members[index] for index in bits(local))

    def gather(self, mask: int) -> int:
        """Turn bits of the node into bits of the group."""
        if self.base is not None:
            return (mask & self.mask) >> self.base
        return sum(1 << index for index, member in enumerate(self.members) if mask >> member & 1)
