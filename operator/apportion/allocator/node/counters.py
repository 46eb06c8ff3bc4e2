"""Shared counters as integer vectors (KEP-4815): the type, state and occupancy of a group of devices.

In: the needs of devices that consume the same counters. Out: one group type for equal needs, with one object per state
(amounts left) and one per occupancy (state and devices held). Which devices fit, the next states and the cheapest device
are computed once per object, not once per node.
"""

from fractions import Fraction
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import keep

Vector: TypeAlias = tuple[int, ...]
Places: TypeAlias = tuple[int, ...]
"""Positions in a vector. After the counters comes a position for each compatibility group of a counter set: 0 less the devices in use
that are not of the group. Devices may be in use together as long as one group of each set is at 0."""
Need: TypeAlias = tuple[tuple[int, int], ...]
"""(position of the counter, amount in 10^-9) for every counter that a device names."""


MOST_MASKS = 4096
"""Device masks for which a state keeps results."""


class GroupState:
    """The amounts left of a group's counters."""

    __slots__ = (
        "_after",
        "_before",
        "_cheapest",
        "_losses",
        "_most",
        "fits",
        "group_type",
        "left",
        "possible",
        "worth",
    )

    def __init__(self, group_type: "GroupType", left: Vector) -> None:
        self.group_type = group_type
        self.left = left
        fits = 0
        for local, need in enumerate(group_type.needs):
            if all(left[counter] >= amount for counter, amount in need) and group_type.admits(left, local):
                fits |= 1 << local
        self.fits = fits
        """Bit per device of the group: the amounts left suffice for it."""
        self.possible = fits.bit_count()
        """How many devices could still be taken, one at a time."""
        self.worth = sum(group_type.weights[local] for local in bits(fits))
        """Sum of their weights."""
        self._after: dict[int, GroupState] = {}
        self._before: dict[int, GroupState] = {}
        self._losses: dict[int, tuple[tuple[int, int], ...]] = {}
        self._cheapest: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self._most: dict[int, int] = {}

    def after(self, local: int) -> "GroupState":
        """Return the state after one more device is taken."""
        found = self._after.get(local)
        return found if found is not None else self._moved(self._after, local, -1)

    def before(self, local: int) -> "GroupState":
        """Return the state after a taken device is released."""
        found = self._before.get(local)
        return found if found is not None else self._moved(self._before, local, 1)

    def _moved(self, states: "dict[int, GroupState]", local: int, sign: int) -> "GroupState":
        left = list(self.left)
        for counter, amount in self.group_type.needs[local]:
            left[counter] += sign * amount
        for position in self.group_type.outside[local] if self.group_type.outside else ():
            left[position] += sign
        found = states[local] = self.group_type.state(tuple(left))
        return found

    def forget(self) -> None:
        """Drop the references to other states."""
        self._after.clear()
        self._before.clear()

    def losses(self, mask: int) -> tuple[tuple[int, int], ...]:
        """Return (worth lost, device) for each device of the mask that fits, the smallest loss first."""
        found = self._losses.get(mask)
        if found is None:
            losses = sorted((self.worth - self.after(local).worth, local) for local in bits(mask & self.fits))
            found = keep(self._losses, mask, tuple(losses), MOST_MASKS)
        return found

    def cheapest(self, mask: int) -> tuple[int, int, tuple[int, ...]]:
        """Return the smallest loss among the devices of the mask, the first device with it, and all of them; one must fit."""
        found = self._cheapest.get(mask)
        if found is None:
            losses = self.losses(mask)
            least = losses[0][0]
            locals_ = tuple(local for lost, local in losses if lost == least)
            found = keep(self._cheapest, mask, (least, locals_[0], locals_), MOST_MASKS)
        return found

    def most(self, mask: int) -> int:
        """Return an upper bound of how many devices of the mask fit together."""
        found = self._most.get(mask)
        if found is None:
            found = keep(self._most, mask, self._bound(mask & self.fits), MOST_MASKS)
        return found

    def _bound(self, mask: int) -> int:
        bound = mask.bit_count()
        least: dict[int, int] | None = None
        for local in bits(mask):
            need = dict(self.group_type.needs[local])
            if least is None:
                least = need
            else:
                least = {
                    counter: min(amount, need[counter])
                    for counter, amount in least.items()
                    if counter in need
                }
        for counter, amount in (least or {}).items():
            if amount > 0:
                bound = min(bound, self.left[counter] // amount)
        return bound


MOST_SELECTIONS = 4096
"""Device masks for which an occupancy keeps its cheapest devices."""

LOSS_WEIGHT = 1 << 40
"""Greater than any worth."""

CheapestDevices: TypeAlias = tuple[()] | tuple[int, tuple[int, ...]]
"""Cost, and the positions in the group of the devices with that cost, in order. The cost is the worth lost, times LOSS_WEIGHT,
plus the worth of the state: the smallest wins. Empty: no device is open."""


class GroupOccupancy:
    """A group state with the devices held as a whole."""

    __slots__ = ("_after", "_before", "bests", "busy", "open", "room", "state")

    def __init__(self, state: "GroupState", busy: int) -> None:
        self.state = state
        self.busy = busy
        """Bit per device of the group that is held."""
        self.open = state.fits & ~busy
        self.room = self.open.bit_count()
        """How many devices could be taken next."""
        self.bests: dict[int, CheapestDevices] = {}
        """Results of `best`; hot paths read them directly."""
        self._after: dict[int, GroupOccupancy] = {}
        self._before: dict[int, GroupOccupancy] = {}

    def best(self, mask: int) -> CheapestDevices:
        """Return the cheapest devices of the mask."""
        found = self.bests.get(mask)
        if found is None:
            open_mask = mask & self.open
            found = ()
            if open_mask:
                least, _, locals_ = self.state.cheapest(open_mask)
                found = least * LOSS_WEIGHT + self.state.worth, locals_
            keep(self.bests, mask, found, MOST_SELECTIONS)
        return found

    def take(self, local: int) -> "GroupOccupancy":
        """Return the occupancy after one more device is held and its counters are charged."""
        found = self._after.get(local)
        if found is None:
            state = self.state.after(local)
            found = self._after[local] = state.group_type.occupancy(state, self.busy | 1 << local)
        return found

    def give(self, local: int) -> "GroupOccupancy":
        """Return the occupancy after a held device is released with its counters."""
        found = self._before.get(local)
        if found is None:
            state = self.state.before(local)
            found = self._before[local] = state.group_type.occupancy(state, self.busy & ~(1 << local))
        return found

    def mark(self, local: int, *, busy: bool) -> "GroupOccupancy":
        """Return the occupancy with the device held or free, and unchanged counters."""
        bit = 1 << local
        return self.state.group_type.occupancy(self.state, self.busy | bit if busy else self.busy & ~bit)

    def forget(self) -> None:
        """Drop the references to other occupancies."""
        self._after.clear()
        self._before.clear()


MOST_STATES = 65_536
"""States, and as many occupancies, kept per type; a MIG-partitioned H100 has some hundreds."""


class GroupType:
    """The states and occupancies of all groups whose devices have equal needs."""

    __slots__ = ("_occupancies", "_states", "inside", "needs", "outside", "weights")

    def __init__(
        self,
        needs: tuple[Need, ...],
        inside: tuple[tuple[Places, ...], ...] = (),
        outside: tuple[Places, ...] = (),
    ) -> None:
        """`inside`, `outside`: the compatibility groups that each device is of, by counter set, and is not of; empty where no device names one."""
        self.needs = needs
        self.inside = inside
        self.outside = outside
        self.weights = _weights(needs)
        """What each device adds to the worth of a state in which it fits."""
        self._states: dict[Vector, GroupState] = {}
        self._occupancies: dict[tuple[GroupState, int], GroupOccupancy] = {}

    def admits(self, left: Vector, local: int) -> bool:
        """Say whether the device is of a group that all devices in use are of, in each counter set that it consumes."""
        return not self.inside or all(
            any(not left[position] for position in own) for own in self.inside[local]
        )

    def state(self, left: Vector) -> GroupState:
        """Return the state with these amounts left."""
        found = self._states.get(left)
        if found is None:
            if len(self._states) >= MOST_STATES:
                self._forget()
            found = self._states[left] = GroupState(self, left)
        return found

    def occupancy(self, state: GroupState, busy: int) -> GroupOccupancy:
        """Return the occupancy of this state with these devices held."""
        key = state, busy
        found = self._occupancies.get(key)
        if found is None:
            if len(self._occupancies) >= MOST_STATES:
                self._forget()
            found = self._occupancies[key] = GroupOccupancy(state, busy)
        return found

    def _forget(self) -> None:
        """Drop all states. Groups keep their current ones, so equal states may exist twice: that costs memory, nothing else."""
        for occupancy in self._occupancies.values():
            occupancy.forget()
        for state in self._states.values():
            state.forget()
        self._occupancies.clear()
        self._states.clear()


WHOLE = 4096
"""The weight of the largest device of a group."""


def _weights(needs: tuple[Need, ...]) -> tuple[int, ...]:
    """Weigh devices by the square of their size, so that one large device is worth more than its parts.

    The size is the largest share of a counter that the device takes, measured against the largest device.
    """
    most: dict[int, int] = {}
    for need in needs:
        for counter, amount in need:
            most[counter] = max(amount, most.get(counter, 0))
    sizes = [
        max(
            (Fraction(amount, most[counter]) for counter, amount in need if most[counter]),
            default=Fraction(0),
        )
        for need in needs
    ]
    return tuple(int(size * size * WHOLE) for size in sizes)
