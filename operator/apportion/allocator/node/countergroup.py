"""CounterGroup: the devices of one node that draw from the same counters.

In: the group's template. Out: one light object per node, with the group's occupancy now.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.counters import GroupOccupancy, GroupState, GroupType, Need


class GroupTemplate(NamedTuple):
    """What a group is on every node of one node template."""

    pool: int
    """Position of the pool on the node."""
    members: tuple[int, ...]
    """Positions of the devices on the node."""
    group_type: GroupType
    counters: tuple[tuple[str, str], ...]
    totals: tuple[int, ...]
    mask: int
    base: int | None
    """First member, where the members follow each other."""
    fresh: GroupState
    """With nothing in use."""


class CounterGroup:
    """One group on one node."""

    __slots__ = ("base", "counters", "fresh", "group_type", "mask", "members", "occupancy", "state", "totals")

    def __init__(self, template: GroupTemplate) -> None:
        self.members = template.members
        self.group_type = template.group_type
        self.counters = template.counters
        self.totals = template.totals
        self.mask = template.mask
        self.base = template.base
        self.fresh = template.fresh
        """With nothing in use."""
        self.state: GroupState = template.fresh
        self.occupancy: GroupOccupancy = template.group_type.occupancy(template.fresh, 0)

    def enter(self, occupancy: GroupOccupancy) -> None:
        """Take over what is held now."""
        self.occupancy = occupancy
        self.state = occupancy.state

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


CounterAmounts: TypeAlias = Mapping[tuple[str, str], int]
CounterNames: TypeAlias = tuple[tuple[str, str], ...]

MOST_READ = 4096
"""Groups whose reading is remembered."""


class GroupTypes:
    """The types seen so far, by what their devices need."""

    def __init__(self) -> None:
        self._types: Memo[tuple[Need, ...], GroupType] = Memo(MOST_READ)
        self._read: Memo[tuple[tuple[int, ...], CounterNames], tuple[Sequence[CounterAmounts], GroupType]] = (
            Memo(MOST_READ)
        )

    def reading(self, amounts: Sequence[CounterAmounts], counters: CounterNames) -> GroupType:
        """Return the type of devices that take these amounts of these counters, each named once."""
        key = tuple([id(one) for one in amounts]), counters
        found = self._read.get(key)
        if found is None:
            position = {name: number for number, name in enumerate(counters)}
            needs = tuple(tuple((position[name], amount) for name, amount in one.items()) for one in amounts)
            # The amounts are kept, so that their ids stay their own.
            found = self._read[key] = amounts, self.of(needs)
        return found[1]

    def of(self, needs: tuple[Need, ...]) -> GroupType:
        """Return the one object for these needs."""
        found = self._types.get(needs)
        if found is None:
            found = self._types[needs] = GroupType(needs)
        return found
