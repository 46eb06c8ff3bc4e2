"""CounterGroup: the devices of one node that consume the same counters.

In: the group's template. Out: one small object per node and group, with the current occupancy.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.counters import GroupOccupancy, GroupState, GroupType, Need, Places
from apportion.dra.consumedcounters import GROUPS, CounterAmounts, groups_by_set


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

CompatibilityGroups: TypeAlias = Mapping[str, Mapping[str, int]]
"""By counter set, for those of which a device names groups, the position of each compatibility group in a state's amounts."""
_Membership: TypeAlias = tuple[tuple[tuple[Places, ...], ...], tuple[Places, ...]]


def compatibility_groups(
    amounts: Sequence[CounterAmounts], sets: Iterable[str], first: int
) -> CompatibilityGroups:
    """Return the positions, from `first` on, of the groups that devices with these amounts are of in each of the sets."""
    read = [groups_by_set(each) for each in amounts]
    found: dict[str, dict[str, int]] = {}
    for counter_set in sets:
        names = sorted(set().union(*(each.get(counter_set, ()) for each in read)))
        found[counter_set] = {name: first + number for number, name in enumerate(names)}
        first += len(names)
    return found


def _membership(amounts: Sequence[CounterAmounts], groups: CompatibilityGroups) -> _Membership:
    inside, outside = [], []
    for each in amounts:
        read = groups_by_set(each)
        rows = [(groups[name], own) for name, own in read.items() if name in groups]
        inside.append(tuple([tuple([row[name] for name in row if name in own]) for row, own in rows]))
        outside.append(tuple([at for row, own in rows for name, at in row.items() if name not in own]))
    return tuple(inside), tuple(outside)


MOST_READ = 4096
"""Group types kept by needs, and as many by identity of the amounts."""


class GroupTypes:
    """One group type for all groups whose devices have equal needs."""

    def __init__(self) -> None:
        self._by_needs: Memo[tuple[tuple[Need, ...], _Membership], GroupType] = Memo(MOST_READ)
        self._by_identity: Memo[
            tuple[tuple[int, ...], CounterNames, tuple[str, ...]], tuple[Sequence[CounterAmounts], GroupType]
        ] = Memo(MOST_READ)

    def of_amounts(
        self, amounts: Sequence[CounterAmounts], counters: CounterNames, groups: CompatibilityGroups
    ) -> GroupType:
        """Return the type of devices that consume these amounts; `counters`: the names, each once, in order."""
        key = tuple([id(device) for device in amounts]), counters, tuple(groups)
        found = self._by_identity.get(key)
        if found is None:
            position = {name: number for number, name in enumerate(counters)}
            needs = tuple(
                tuple(
                    (position[name], amount)
                    for name, amount in device.items()
                    if not name[1].startswith(GROUPS)
                )
                for device in amounts
            )
            # The amounts are kept, so that their ids are not used for other objects.
            found = self._by_identity[key] = (
                amounts,
                self.of(needs, _membership(amounts, groups) if groups else ((), ())),
            )
        return found[1]

    def of(self, needs: tuple[Need, ...], membership: _Membership = ((), ())) -> GroupType:
        """Return the group type for these needs, and for these compatibility groups that devices are of and are not of."""
        key = needs, membership
        found = self._by_needs.get(key)
        if found is None:
            found = self._by_needs[key] = GroupType(needs, *membership)
        return found
