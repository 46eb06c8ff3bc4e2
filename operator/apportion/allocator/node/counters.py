"""Shared counters as integer vectors (KEP-4815).

In: what a pool's counter sets hold and what its devices consume. Out: groups of devices that draw from the same
counters. Groups of the same make share one type, and a type keeps one object per state that it was ever seen in: what
fits, the state after a device is taken, and how much that costs are computed once per state, not once per node.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.node.groupoccupancy import GroupOccupancy

Vector: TypeAlias = tuple[int, ...]
Need: TypeAlias = tuple[tuple[int, int], ...]
"""(position of the counter, amount in 10^-9) for every counter that a device names."""


MOST_MASKS = 4096
"""Selections that a state remembers."""


class GroupState:
    """A group with certain amounts left. Asks the type, remembers the answers."""

    __slots__ = (
        "_after",
        "_before",
        "_cheapest",
        "_losses",
        "_most",
        "fits",
        "left",
        "make",
        "possible",
        "worth",
    )

    def __init__(self, make: "GroupType", left: Vector) -> None:
        self.make = make
        self.left = left
        fits = 0
        for local, need in enumerate(make.needs):
            if all(left[counter] >= amount for counter, amount in need):
                fits |= 1 << local
        self.fits = fits
        """Bit per device of the group, in the group's order: enough is left for it."""
        self.possible = fits.bit_count()
        """How many devices could still be taken, one at a time."""
        self.worth = sum(make.weights[local] for local in bits(fits))
        """What those are worth together."""
        self._after: dict[int, GroupState] = {}
        self._before: dict[int, GroupState] = {}
        self._losses: dict[int, tuple[tuple[int, int], ...]] = {}
        self._cheapest: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self._most: dict[int, int] = {}

    def after(self, local: int) -> "GroupState":
        """Return the state when the device is taken as well."""
        found = self._after.get(local)
        if found is None:
            left = list(self.left)
            for counter, amount in self.make.needs[local]:
                left[counter] -= amount
            found = self._after[local] = self.make.state(tuple(left))
        return found

    def before(self, local: int) -> "GroupState":
        """Return the state when the device, which is taken, is free again."""
        found = self._before.get(local)
        if found is None:
            left = list(self.left)
            for counter, amount in self.make.needs[local]:
                left[counter] += amount
            found = self._before[local] = self.make.state(tuple(left))
        return found

    def forget(self) -> None:
        """Let go of other states."""
        self._after.clear()
        self._before.clear()

    def losses(self, wanted: int) -> tuple[tuple[int, int], ...]:
        """Return (worth that is lost, device) for each wanted one that fits, the smallest loss first."""
        found = self._losses.get(wanted)
        if found is None:
            if len(self._losses) >= MOST_MASKS:
                self._losses.clear()
                self._cheapest.clear()
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
            if len(self._most) >= MOST_MASKS:
                self._most.clear()
            found = self._most[wanted] = self._bound(wanted & self.fits)
        return found

    def _bound(self, wanted: int) -> int:
        bound = wanted.bit_count()
        least: dict[int, int] | None = None
        for local in bits(wanted):
            need = dict(self.make.needs[local])
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


MOST_STATES = 65_536
"""States, and spots, kept per type; an H100 under any mix has some hundreds."""


class GroupType:
    """Everything that groups of one make have in common."""

    __slots__ = ("_spots", "_states", "needs", "weights")

    def __init__(self, needs: tuple[Need, ...]) -> None:
        self.needs = needs
        self.weights = _weights(needs)
        """What it is worth that a device can still be taken."""
        self._states: dict[Vector, GroupState] = {}
        self._spots: dict[tuple[GroupState, int], GroupOccupancy] = {}

    def state(self, left: Vector) -> GroupState:
        """Return the one object for these amounts."""
        found = self._states.get(left)
        if found is None:
            if len(self._states) >= MOST_STATES:
                self._forget()
            found = self._states[left] = GroupState(self, left)
        return found

    def spot(self, state: GroupState, busy: int) -> GroupOccupancy:
        """Return the one object for this state with these devices held."""
        key = state, busy
        found = self._spots.get(key)
        if found is None:
            if len(self._spots) >= MOST_STATES:
                self._forget()
            found = self._spots[key] = GroupOccupancy(state, busy)
        return found

    def _forget(self) -> None:
        """Start over. Groups go on with the objects that they have; equal ones may then exist twice, which only costs."""
        for spot in self._spots.values():
            spot.forget()
        for state in self._states.values():
            state.forget()
        self._spots.clear()
        self._states.clear()


CounterAmounts: TypeAlias = Mapping[tuple[str, str], int]
CounterNames: TypeAlias = tuple[tuple[str, str], ...]

MOST_READ = 4096
"""Groups whose reading is remembered."""


class GroupTypes:
    """The types seen so far, by what their devices need."""

    def __init__(self) -> None:
        self._types: dict[tuple[Need, ...], GroupType] = {}
        self._read: dict[
            tuple[tuple[int, ...], CounterNames], tuple[Sequence[CounterAmounts], GroupType]
        ] = {}

    def reading(self, amounts: Sequence[CounterAmounts], counters: CounterNames) -> GroupType:
        """Return the type of devices that take these amounts of these counters, each named once."""
        key = tuple([id(one) for one in amounts]), counters
        found = self._read.get(key)
        if found is None:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            position = {name: number for number, name in enumerate(counters)}
            needs = tuple(tuple((position[name], amount) for name, amount in one.items()) for one in amounts)
            # The amounts are kept, so that their ids stay their own.
            found = self._read[key] = amounts, self.of(needs)
        return found[1]

    def of(self, needs: tuple[Need, ...]) -> GroupType:
        """Return the one object for these needs."""
        found = self._types.get(needs)
        if found is None:
            if len(self._types) >= MOST_READ:
                self._types.clear()
            found = self._types[needs] = GroupType(needs)
        return found


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
