"""Feasibility: comparison of counts that proves without a search that the remaining slots cannot be served.

In: a search. Out: False only if no assignment of its remaining slots exists. Slots that request the same are compared as one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from apportion.allocator.bits import bits
from apportion.allocator.rules.attributes import AttributeValue
from apportion.allocator.rules.query import Alternative
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.constraints import ConstraintState
from apportion.allocator.search.partial import PartialSolution

LOOKS_TO_OPEN = 8
"""What it takes to find the devices that an alternative may take, in looks at a mask."""
LOOKS_AT_GROUP = 4
"""What it takes to ask a counter group how many devices fit together."""


@dataclass(slots=True)
class CountedRequest:
    """Slots of which each needs `count` devices of a mask."""

    mask: int
    count: int
    slots: int
    constraints: frozenset[int]
    """Constraints that cover all their alternatives."""
    shared: bool
    """Whether their devices may serve other slots too (shares, admin access)."""
    alternatives: tuple[Alternative, ...] = ()
    """What they may take of a device to share, if each takes some of one."""

    @property
    def total(self) -> int:
        """Return how many devices they need together."""
        return self.count * self.slots


class _Alternatives:
    """The alternatives of slots that request the same."""

    __slots__ = ("claim", "constraints", "row")

    def __init__(self, claim: int, row: Sequence[Candidates]) -> None:
        self.claim = claim
        self.row = tuple(row)
        self.constraints = [frozenset(candidates.alternative.constraints) for candidates in row]


class Feasibility:
    """The comparisons of one search."""

    def __init__(self, search: PartialSolution) -> None:
        self._search = search
        self._alternatives: list[_Alternatives] = []
        self._numbers: list[int | None] = []
        """By slot the position of its alternatives; None: it requests all devices, which no comparison reads."""
        self._later: dict[int, tuple[tuple[_Alternatives, int], ...]] = {}
        self.looked = 0
        """How many masks all comparisons have looked at."""
        known: dict[object, int] = {}
        shareable = search.view.shareable
        for slot, row in zip(search.query.slots, search.candidate_rows, strict=True):
            if any(candidates.everything is not None for candidates in row):
                self._numbers.append(None)
                continue
            key = (
                # What a claim has taken counts for admin access alone.
                slot.claim if any(candidates.alternative.admin for candidates in row) else -1,
                *[
                    (
                        candidates.mask,
                        candidates.count,
                        candidates.alternative.admin,
                        candidates.alternative.constraints,
                        candidates.alternative.capacity if candidates.mask & shareable else (),
                    )
                    for candidates in row
                ],
            )
            number = known.setdefault(key, len(known))
            if number == len(self._alternatives):
                self._alternatives.append(_Alternatives(slot.claim, row))
            self._numbers.append(number)

    def possible(
        self, number: int, current: tuple[Candidates, int, int] | None = None, *, narrow: bool = False
    ) -> bool:
        """Say whether the counts allow a solution for the slots from `number` on.

        `current`: of the first of them the alternative that is being served, how many devices it still needs, and the devices that
        it may take. `narrow`: remove values from match constraints that allow none.
        """
        requests = self._requests(number, current)
        if requests is None:
            return False
        self.looked += self._looks(requests)
        return self._enough(requests) and self._has_room(requests) and self._agreeing(requests, narrow=narrow)

    def _looks(self, requests: Sequence[CountedRequest]) -> int:
        """Return how many masks `_enough` looks at."""
        return len(requests) * (len(requests) + LOOKS_AT_GROUP * len(self._search.view.groups))

    def _requests(
        self, number: int, current: tuple[Candidates, int, int] | None
    ) -> list[CountedRequest] | None:
        """Return what the slots need; None where one of them has too few devices."""
        search, shareable = self._search, self._search.view.shareable
        requests: list[CountedRequest] = []
        takes: tuple[Alternative, ...]
        if current is not None:
            candidates, left, allowed = current
            if left:
                mask = search.open(candidates, search.query.slots[number].claim) & allowed
                alternative = candidates.alternative
                shared = alternative.admin or bool(mask & shareable)
                takes = () if alternative.admin or mask & ~shareable else (alternative,)
                requests.append(
                    CountedRequest(mask, left, 1, frozenset(alternative.constraints), shared, takes)
                )
            number += 1
        for alternatives, slots in self._slots_from(number):
            claim, union, count, admin = alternatives.claim, 0, 0, False
            constraints: frozenset[int] | None = None
            for candidates, covering in zip(alternatives.row, alternatives.constraints, strict=True):
                mask = search.open(candidates, claim)
                if mask.bit_count() < candidates.count:
                    continue
                union |= mask
                count = candidates.count if constraints is None else min(count, candidates.count)
                constraints = covering if constraints is None else constraints & covering
                admin |= candidates.alternative.admin
            self.looked += LOOKS_TO_OPEN * len(alternatives.row)
            if constraints is None:
                return None
            takes = (
                () if admin or union & ~shareable else tuple([each.alternative for each in alternatives.row])
            )
            shared = admin or bool(union & shareable)
            requests.append(CountedRequest(union, count, slots, constraints, shared, takes))
        return requests

    def _slots_from(self, number: int) -> tuple[tuple[_Alternatives, int], ...]:
        """Return the alternatives of the slots from `number` on, and how many slots have them."""
        found = self._later.get(number)
        if found is None:
            counts = Counter(self._numbers[number:])
            found = self._later[number] = tuple(
                [(self._alternatives[each], slots) for each, slots in counts.items() if each is not None]
            )
        return found

    def _agreeing(self, requests: Sequence[CountedRequest], *, narrow: bool) -> bool:
        """Say whether the constraints leave enough devices."""
        for number, constraint in enumerate(self._search.constraints):
            covered = [request for request in requests if number in request.constraints]
            if not covered:
                continue
            if constraint.distinct:
                self.looked += min(len(constraint.values), sum([request.total for request in covered]))
                if not _distinct(covered, constraint):
                    return False
            elif not constraint.chosen or len(constraint.live) > 1:
                able = self._able(covered, constraint)
                if not narrow:
                    if next(able, None) is None:
                        return False
                    continue
                live = set(able)
                if not live:
                    return False
                if len(live) < len(constraint.live):
                    constraint.narrow(live)
        return True

    def _able(
        self, requests: Sequence[CountedRequest], constraint: ConstraintState
    ) -> Iterator[AttributeValue]:
        """Yield the live values of a match that have enough devices for the requests."""
        union, least = 0, 1
        for request in requests:
            union |= request.mask
            least = max(least, request.count)
        least = max(least, sum([request.total for request in requests if not request.shared]))
        # Most values of an attribute that differs from device to device have too few devices.
        values = [
            value for value in constraint.live if (constraint.values[value] & union).bit_count() >= least
        ]
        self.looked += len(constraint.live) + len(values) * self._looks(requests)
        for value in values:
            if self._enough(_restricted(requests, constraint.values[value])):
                yield value

    def _enough(self, requests: Sequence[CountedRequest]) -> bool:
        exclusive = []
        for request in requests:
            if request.mask.bit_count() < request.count:
                return False
            if not request.shared:
                exclusive.append(request)
        if not exclusive:
            return True
        union = 0
        for request in exclusive:
            union |= request.mask
        for mask in {union, *[request.mask for request in exclusive]}:
            needed = sum([request.total for request in exclusive if not request.mask & ~mask])
            if needed > self._room(mask):
                return False
        return True

    def _has_room(self, requests: Sequence[CountedRequest]) -> bool:
        """Say whether the devices to share have room for so many shares, if each took as little as the smallest."""
        shares = [request for request in requests if request.alternatives]
        needed, union = sum([request.total for request in shares]), 0
        for request in shares:
            union |= request.mask
        if needed <= union.bit_count():
            return True
        alternatives = {
            alternative.capacity: alternative for request in shares for alternative in request.alternatives
        }
        self.looked += LOOKS_TO_OPEN * len(alternatives) * union.bit_count()
        for index in bits(union):
            needed -= self._most_shares(index, alternatives.values(), needed)
            if needed <= 0:
                return True
        return False

    def _most_shares(self, index: int, alternatives: Iterable[Alternative], enough: int) -> int:
        """Return an upper bound of how many shares a device has left for these alternatives; `enough`, if nothing bounds it."""
        view = self._search.view
        least: dict[str, int] = {}
        for alternative in alternatives:
            taken = view.charge(index, alternative)
            for name, amount in taken.items() if isinstance(taken, dict) else ():
                least[name] = min(least.get(name, amount.nano), amount.nano)
        held, used = view.used.get(index, {}), self._search.shares.get(index, {})
        capacity = view.devices[index].capacity
        return min(
            [
                (capacity[name].value.nano - held.get(name, 0) - used.get(name, 0)) // amount
                for name, amount in least.items()
                if amount > 0
            ],
            default=enough,
        )

    def _room(self, mask: int) -> int:
        """Return an upper bound of how many devices of the mask can be taken together."""
        view = self._search.view
        room = (mask & view.plain).bit_count()
        if mask & ~view.plain:
            for group, state in zip(view.groups, self._search.states, strict=True):
                inside = mask & group.mask
                if inside:
                    room += state.most(group.gather(inside))
        return room


def _restricted(requests: Sequence[CountedRequest], devices: int) -> list[CountedRequest]:
    return [
        CountedRequest(
            request.mask & devices, request.count, request.slots, request.constraints, request.shared
        )
        for request in requests
    ]


def _distinct(requests: Sequence[CountedRequest], constraint: ConstraintState) -> bool:
    """Say whether there are as many values as devices, because each device needs a value of its own."""
    union = 0
    for request in requests:
        union |= request.mask
    union &= constraint.mask
    needed = sum([request.total for request in requests])
    for devices in constraint.values.values():
        if devices & union:
            needed -= 1
            if needed <= 0:
                return True
    return needed <= 0
