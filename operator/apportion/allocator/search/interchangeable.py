"""Which devices are alike, as far as one search is concerned.

In: a search. Out: keys: devices with equal keys may be swapped now without changing what the rest of the search can do;
states with equal keys have equal futures. Keys say "different" where in doubt.
"""

from collections import Counter

from apportion.allocator.bits import bits
from apportion.allocator.search.partial import PartialSolution


class Interchangeability:
    """Made at the first dead end of a search; most searches have none."""

    def __init__(self, search: PartialSolution) -> None:
        self._search = search
        view = search.view
        candidate_rows = [candidates for row in search.candidate_rows for candidates in row]
        relevant = 0
        for candidates in candidate_rows:
            relevant |= candidates.mask
        kinds: dict[object, int] = {}
        self._kind: dict[int, int] = {}
        for index in bits(relevant):
            traits: tuple[object, ...] = (
                # A shareable device is like no other: its capacities and shares are its own.
                index if view.shareable >> index & 1 else -1,
                tuple(candidates.mask >> index & 1 for candidates in candidate_rows),
                tuple(tuple(constraint.of.get(index, ())) for constraint in search.constraints),
                bool(view.charged >> index & 1),
            )
            self._kind[index] = kinds.setdefault(traits, len(kinds))
        makes: dict[object, int] = {}
        self._makes = [
            makes.setdefault(
                (id(group.group_type), tuple(self._kind.get(member, -1) for member in group.members)),
                len(makes),
            )
            for group in view.groups
        ]

    def of(self, index: int) -> object:
        """Return the key of a device that is free now."""
        place = self._search.view.group_of.get(index)
        if place is None:
            return self._kind[index]
        return self.group(place[0]), place[1]

    def kind(self, index: int) -> int:
        """Return what a device is, whatever became of the counters that it draws from."""
        return self._kind[index]

    def state(self) -> object:
        """Return the key of the whole search state."""
        search = self._search
        view = search.view
        plain = Counter(self._kind.get(index, -1) for index in bits(search.taken & view.plain))
        looked = (
            tuple((claim, mask) for claim, mask in sorted(search.taken_by.items()) if mask)
            if self._admin()
            else ()
        )
        return (
            tuple(sorted(plain.items())),
            tuple(sorted(Counter(self.group(number) for number in range(len(view.groups))).items())),
            tuple(constraint.mask for constraint in search.constraints),
            tuple((index, tuple(sorted(used.items()))) for index, used in sorted(search.shares.items())),
            looked,
        )

    def group(self, number: int) -> tuple[int, int, int]:
        """Return the key of a group of devices that share counters."""
        search = self._search
        group = search.view.groups[number]
        # A state object is unique per type and amounts, so its identity stands for both.
        return (
            self._makes[number],
            id(search.states[number]),
            group.gather((search.taken | search.paid) & group.mask),
        )

    def _admin(self) -> bool:
        return any(candidates.alternative.admin for row in self._search.candidate_rows for candidates in row)
