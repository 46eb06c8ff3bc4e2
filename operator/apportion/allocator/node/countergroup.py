"""CounterGroup: the devices of one node that consume the same counters.

In: the group's template. Out: one small object per node and group, with the current occupancy.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.counters import GroupOccupancy, GroupState, GroupType, Need
from apportion.dra.consumedcounters import CounterAmounts


class GroupTemplate(NamedTuple):
    """The properties of a group that are equal on all nodes of one node template."""

    pool: int
    """Position of the pool on the node."""
    members: tuple[int, ...]
    """Positions of the devices on the node."""
    group_type: GroupType
    counters: tuple[tuple[str, str], ...]
    totals: tuple[int, ...]
    mask: int
    base: int | None
    """The first member, if the positions of the members are consecutive; else None."""
    fresh: GroupState
    """The state with nothing in use."""


class CounterGroup:
    """One group on one node, with its current state."""

    __slots__ = ("base", "counters", "fresh", "group_type", "mask", "members", "occupancy", "state", "totals")

    def __init__(self, template: GroupTemplate) -> None:
        self.members = template.members
        self.group_type = template.group_type
        self.counters = template.counters
        self.totals = template.totals
        self.mask = template.mask
        self.base = template.base
        self.fresh = template.fresh
        """The state with nothing in use."""
        self.state: GroupState = template.fresh
        self.occupancy: GroupOccupancy = template.group_type.occupancy(template.fresh, 0)

    def enter(self, occupancy: GroupOccupancy) -> None:
        """Set the current occupancy."""
        self.occupancy = occupancy
        self.state = occupancy.state

    def spread(self, local: int) -> int:
        """Convert a mask over the group's devices into one over the node's."""
        if self.base is not None:
            return local << self.base
        return sum(1 << self.members[index] for index in bits(local))

    def gather(self, mask: int) -> int:
        """Convert a mask over the node's devices into one over the group's."""
        if self.base is not None:
            return (mask & self.mask) >> self.base
        return sum(1 << index for index, member in enumerate(self.members) if mask >> member & 1)


CounterNames: TypeAlias = tuple[tuple[str, str], ...]

MOST_READ = 4096
"""Group types kept by needs, and as many by identity of the amounts."""


class GroupTypes:
    """One group type for all groups whose devices have equal needs."""

    def __init__(self) -> None:
        self._by_needs: Memo[tuple[Need, ...], GroupType] = Memo(MOST_READ)
        self._by_identity: Memo[
            tuple[tuple[int, ...], CounterNames], tuple[Sequence[CounterAmounts], GroupType]
        ] = Memo(MOST_READ)

    def of_amounts(self, amounts: Sequence[CounterAmounts], counters: CounterNames) -> GroupType:
        """Return the type of devices that consume these amounts; `counters`: the names, each once, in order."""
        key = tuple([id(device) for device in amounts]), counters
        found = self._by_identity.get(key)
        if found is None:
            position = {name: number for number, name in enumerate(counters)}
            needs = tuple(
                tuple((position[name], amount) for name, amount in device.items()) for device in amounts
            )
            # The amounts are kept, so that their ids are not used for other objects.
            found = self._by_identity[key] = amounts, self.of(needs)
        return found[1]

    def of(self, needs: tuple[Need, ...]) -> GroupType:
        """Return the group type for these needs."""
        found = self._by_needs.get(needs)
        if found is None:
            found = self._by_needs[needs] = GroupType(needs)
        return found
