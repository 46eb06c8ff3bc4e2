"""Shared counters as integer vectors (KEP-4815).

In: what a pool's counter sets hold and what its devices consume. Out: groups of devices that draw from the same
counters. Groups whose devices have equal needs share one group type. A type keeps one object per state (amounts left) and one per
occupancy (state and devices held): what fits, what comes next and which device costs least are computed once per object,
not once per node.
"""

from fractions import Fraction
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo

Vector: TypeAlias = tuple[int, ...]
Need: TypeAlias = tuple[tuple[int, int], ...]
"""(position of the counter, amount in 10^-9) for every counter that a device names."""


MOST_MASKS = 4096
"""Sets of devices for which a state keeps results."""


class GroupState:
    """A group with certain amounts left."""

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
            if all(left[counter] >= amount for counter, amount in need):
                fits |= 1 << local
        self.fits = fits
        """Bit per device of the group, in the group's order: enough is left for it."""
        self.possible = fits.bit_count()
        """How many devices could still be taken, one at a time."""
        self.worth = sum(group_type.weights[local] for local in bits(fits))
        """What those are worth together."""
        self._after: dict[int, GroupState] = {}
        self._before: dict[int, GroupState] = {}
        self._losses: Memo[int, tuple[tuple[int, int], ...]] = Memo(MOST_MASKS)
        self._cheapest: Memo[int, tuple[int, int, tuple[int, ...]]] = Memo(MOST_MASKS)
        self._most: Memo[int, int] = Memo(MOST_MASKS)

    def after(self, local: int) -> "GroupState":
        """Return the state when the device is taken as well."""
        found = self._after.get(local)
        if found is None:
            left = list(self.left)
            for counter, amount in self.group_type.needs[local]:
                left[counter] -= amount
            found = self._after[local] = self.group_type.state(tuple(left))
        return found

    def before(self, local: int) -> "GroupState":
        """Return the state when the device, which is taken, is free again."""
        found = self._before.get(local)
        if found is None:
            left = list(self.left)
            for counter, amount in self.group_type.needs[local]:
                left[counter] += amount
            found = self._before[local] = self.group_type.state(tuple(left))
        return found

    def forget(self) -> None:
        """Let go of other states."""
        self._after.clear()
        self._before.clear()

    def losses(self, wanted: int) -> tuple[tuple[int, int], ...]:
        """Return (worth that is lost, device) for each wanted one that fits, the smallest loss first."""
        found = self._losses.get(wanted)
        if found is None:
            found = self._losses[wanted] = tuple(
                sorted((self.worth - self.after(local).worth, local) for local in bits(wanted & self.fits))
            )
        return found

    def cheapest(self, wanted: int) -> tuple[int, int, tuple[int, ...]]:
        """Return the smallest loss among the wanted devices, which must fit, the first device of it, and all of them."""
        found = self._cheapest.get(wanted)
        if found is None:
            losses = self.losses(wanted)
            least = losses[0][0]
            locals_ = tuple(local for lost, local in losses if lost == least)
            found = self._cheapest[wanted] = least, locals_[0], locals_
        return found

    def most(self, wanted: int) -> int:
        """Return how many of the wanted devices could be taken together at most (a bound, not a promise)."""
        found = self._most.get(wanted)
        if found is None:
            found = self._most[wanted] = self._bound(wanted & self.fits)
        return found

    def _bound(self, wanted: int) -> int:
        bound = wanted.bit_count()
        least: dict[int, int] | None = None
        for local in bits(wanted):
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
"""Sets of devices for which an occupancy keeps its cheapest devices."""

LOSS_WEIGHT = 1 << 40
"""Beyond any worth."""

CheapestDevices: TypeAlias = tuple[()] | tuple[int, tuple[int, ...]]
"""Worth that is lost times LOSS_WEIGHT plus worth around it, so that the smallest wins; positions in the group of the devices
that cost that much, the first one first. Empty: no device is open."""


class GroupOccupancy:
    """A group in one state, with the devices that are held as a whole."""

    __slots__ = ("_after", "_before", "bests", "busy", "open", "room", "state")

    def __init__(self, state: "GroupState", busy: int) -> None:
        self.state = state
        self.busy = busy
        """Bit per device of the group that is held."""
        self.open = state.fits & ~busy
        self.room = self.open.bit_count()
        """How many devices could be taken next."""
        self.bests: Memo[int, CheapestDevices] = Memo(MOST_SELECTIONS)
        """Results of `best`; hot paths read them directly."""
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
            self.bests[wanted] = found
        return found

    def take(self, local: int) -> "GroupOccupancy":
        """Return the occupancy when the device is held as well and draws from the counters."""
        found = self._after.get(local)
        if found is None:
            state = self.state.after(local)
            found = self._after[local] = state.group_type.occupancy(state, self.busy | 1 << local)
        return found

    def give(self, local: int) -> "GroupOccupancy":
        """Return the occupancy when the device, which is held, is free again."""
        found = self._before.get(local)
        if found is None:
            state = self.state.before(local)
            found = self._before[local] = state.group_type.occupancy(state, self.busy & ~(1 << local))
        return found

    def mark(self, local: int, *, busy: bool) -> "GroupOccupancy":
        """Return the occupancy when the device is held or free and the counters stay as they are."""
        bit = 1 << local
        return self.state.group_type.occupancy(self.state, self.busy | bit if busy else self.busy & ~bit)

    def forget(self) -> None:
        """Let go of other occupancies."""
        self._after.clear()
        self._before.clear()


MOST_STATES = 65_536
"""States, and occupancies, kept per type; an H100 under any mix has some hundreds."""


class GroupType:
    """What all groups have in common whose devices have equal needs."""

    __slots__ = ("_occupancies", "_states", "needs", "weights")

    def __init__(self, needs: tuple[Need, ...]) -> None:
        self.needs = needs
        self.weights = _weights(needs)
        """Per device: what it is worth that it can still be taken."""
        self._states: dict[Vector, GroupState] = {}
        self._occupancies: dict[tuple[GroupState, int], GroupOccupancy] = {}

    def state(self, left: Vector) -> GroupState:
        """Return the one object for these amounts."""
        found = self._states.get(left)
        if found is None:
            if len(self._states) >= MOST_STATES:
                self._forget()
            found = self._states[left] = GroupState(self, left)
        return found

    def occupancy(self, state: GroupState, busy: int) -> GroupOccupancy:
        """Return the one object for this state with these devices held."""
        key = state, busy
        found = self._occupancies.get(key)
        if found is None:
            if len(self._occupancies) >= MOST_STATES:
                self._forget()
            found = self._occupancies[key] = GroupOccupancy(state, busy)
        return found

    def _forget(self) -> None:
        """Start over. Groups go on with the objects that they have; equal ones may then exist twice, which only costs."""
        for occupancy in self._occupancies.values():
            occupancy.forget()
        for state in self._states.values():
            state.forget()
        self._occupancies.clear()
        self._states.clear()


WHOLE = 4096
"""The weight of the largest device of a group."""


def _weights(needs: tuple[Need, ...]) -> tuple[int, ...]:
    """Weigh devices by the square of their size, so that one large one is worth more than its parts.

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
