"""Spots: a group of devices with certain amounts left and certain devices held, one object per combination.

In: states of groups. Out: what is open, the next spot, and the best device among those that a claim may take, each
computed once per spot and not once per node.
"""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from apportion.allocator.node.counters import GroupState


MOST_KEPT = 4096
"""Selections that a spot remembers."""

LOSS_WEIGHT = 1 << 40
"""Beyond any worth."""

CheapestDevices: TypeAlias = tuple[()] | tuple[int, tuple[int, ...]]
"""Worth that is lost times LOSS_WEIGHT plus worth around it, so that the smallest wins; positions in the group of the devices
that cost that much, the first one first. Empty: no device is open."""


class GroupOccupancy:
    """A group in one state, with the devices that are held as a whole. Asks the state, remembers the answers."""

    __slots__ = ("_after", "_before", "bests", "busy", "open", "room", "state")

    def __init__(self, state: "GroupState", busy: int) -> None:
        self.state = state
        self.busy = busy
        """Bit per device of the group that is held."""
        self.open = state.fits & ~busy
        self.room = self.open.bit_count()
        """How many devices could be taken next."""
        self.bests: dict[int, CheapestDevices] = {}
        """What `best` answered."""
        self._after: dict[int, GroupOccupancy] = {}
        self._before: dict[int, GroupOccupancy] = {}

    def best(self, wanted: int) -> CheapestDevices:
        """Return the best of the wanted devices."""
        found = self.bests.get(wanted)
        if found is None:
            open_ = wanted & self.open
            found = ()
            if open_:
                least, _, locals_ = self.state.cheapest(open_)
                found = least * LOSS_WEIGHT + self.state.worth, locals_
            if len(self.bests) >= MOST_KEPT:
                self.bests.clear()
            self.bests[wanted] = found
        return found

    def take(self, local: int) -> "GroupOccupancy":
        """Return the spot when the device is held as well and draws from the counters."""
        found = self._after.get(local)
        if found is None:
            state = self.state.after(local)
            found = self._after[local] = state.make.spot(state, self.busy | 1 << local)
        return found

    def give(self, local: int) -> "GroupOccupancy":
        """Return the spot when the device, which is held, is free again."""
        found = self._before.get(local)
        if found is None:
            state = self.state.before(local)
            found = self._before[local] = state.make.spot(state, self.busy & ~(1 << local))
        return found

    def mark(self, local: int, *, busy: bool) -> "GroupOccupancy":
        """Return the spot when the device is held or free and the counters stay as they are."""
        bit = 1 << local
        return self.state.make.spot(self.state, self.busy | bit if busy else self.busy & ~bit)

    def forget(self) -> None:
        """Let go of other spots."""
        self._after.clear()
        self._before.clear()
