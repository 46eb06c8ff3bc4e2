"""Interchangeability: devices, and states of a search, that lead to equal results.

In: a search. Out: keys. Devices with equal keys can be swapped without a change for the rest of the search; search states
with equal keys have the same solutions. Different keys prove nothing.
"""

from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.search.partial import PartialSolution

Shares: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts in 10^-9 by capacity, and how many shares."""


class Interchangeability:
    """Keys of one search. Created at its first dead end, as most searches have none."""

    def __init__(self, search: PartialSolution, *, shared_apart: bool = False) -> None:
        """`shared_apart`: each device to share has keys of its own."""
        self._search = search
        view = search.view
        self._shareable = view.shareable
        candidate_rows = [candidates for row in search.candidate_rows for candidates in row]
        relevant = 0
        for candidates in candidate_rows:
            relevant |= candidates.mask
        numbers: dict[object, int] = {}
        self._traits_of: dict[int, int] = {}
        for index in bits(relevant):
            traits: tuple[object, ...] = (
                _room(view, index, apart=shared_apart) if view.shareable >> index & 1 else (),
                tuple(candidates.mask >> index & 1 for candidates in candidate_rows),
                tuple(tuple(constraint.of.get(index, ())) for constraint in search.constraints),
                bool(view.charged >> index & 1),
            )
            self._traits_of[index] = numbers.setdefault(traits, len(numbers))
        self._of_lists = [
            not each.distinct and any(len(values) > 1 for values in each.of.values())
            for each in search.constraints
        ]
        """By constraint whether different live values of it may allow the same devices."""
        group_numbers: dict[object, int] = {}
        self._group_traits = [
            group_numbers.setdefault(
                (id(group.group_type), tuple(self._traits_of.get(member, -1) for member in group.members)),
                len(group_numbers),
            )
            for group in view.groups
        ]

    def of(self, index: int) -> object:
        """Return the key of a device that may be chosen now. With admin access that may be one that another claim has: it leaves a free one to the next."""
        member = self._search.view.group_of.get(index)
        if member is None:
            return self._traits_of[index], self._search.taken >> index & 1, self._shares(index)
        return self.group(member[0]), member[1]

    def traits_of(self, index: int) -> int:
        """Return the number of a device's traits, without the state of its counters."""
        return self._traits_of[index]

    def constraints(self) -> tuple[object, ...]:
        """Return the key of what the constraints allow now, and after each further device."""
        return tuple(
            (each.mask, frozenset(each.live)) if of_lists else each.mask
            for each, of_lists in zip(self._search.constraints, self._of_lists, strict=True)
        )

    def state(self) -> object:
        """Return the key of the whole search state."""
        search = self._search
        view = search.view
        plain = Counter(self._traits_of.get(index, -1) for index in bits(search.taken & view.plain))
        admin_devices = (
            tuple((claim, mask) for claim, mask in sorted(search.taken_by.items()) if mask)
            if self._has_admin_access()
            else ()
        )
        return (
            tuple(sorted(plain.items())),
            tuple(sorted(Counter(self.group(number) for number in range(len(view.groups))).items())),
            self.constraints(),
            tuple(sorted(Counter(self._plain_shares()).items())),
            admin_devices,
        )

    def group(self, number: int) -> tuple[int, int, int, tuple[Shares, ...]]:
        """Return the key of a counter group."""
        search = self._search
        group = search.view.groups[number]
        # There is one state object per type and amounts, so its id identifies both.
        return (
            self._group_traits[number],
            id(search.states[number]),
            group.gather((search.taken | search.paid) & group.mask),
            tuple([self._shares(member) for member in group.members]) if group.mask & self._shareable else (),
        )

    def _plain_shares(self) -> Iterator[tuple[int, Shares]]:
        """Yield traits and shares of each device without counters that has some."""
        plain = self._search.view.plain
        for index in self._search.shares:
            if plain >> index & 1:
                yield self._traits_of[index], self._shares(index)

    def _shares(self, index: int) -> Shares:
        """Return what this search has taken of a device to share."""
        used = self._search.shares.get(index)
        return tuple(sorted(used.items())) if used is not None else ()

    def _has_admin_access(self) -> bool:
        return any(candidates.alternative.admin for row in self._search.candidate_rows for candidates in row)


def _room(view: NodeView, index: int, *, apart: bool) -> tuple[object, ...]:
    """Return what a device to share has, by which rules it is taken, and what others have of it."""
    if apart:
        return (index,)
    used = view.used.get(index, {})
    return tuple(sorted(view.devices[index].capacity.items(), key=itemgetter(0))), tuple(sorted(used.items()))
