"""Bounds: what each claim takes of a quota's resources at least, and by how much an alternative of it takes more, or may.

In: the requests of claims, as they are written. Out: amounts that no choice of devices falls below. They do not change with what is used, so
that each claim's are found out once: it may have 32 requests of eight alternatives, and a quota as many entries.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from apportion.dra.claim import Claim, Request, RequestSlot
from apportion.quota.resource import Resource

MOST_KEPT = 1024
"""Claims of which the bounds are kept."""
LONGEST_KEPT: Final = 1 << 23
"""Characters of selectors of these claims: one may have a million, and be kept though it is gone."""


class ClaimBounds(NamedTuple):
    """Those of one claim, for each resource."""

    slots: tuple[RequestSlot, ...]
    """The requests, which are kept, so that their identity is not that of others."""
    least: Sequence[int]
    """Each request with the alternative that takes least."""
    most_more: Sequence[int]
    """How much more than the least one another alternative of one request takes at most."""
    dearest: Sequence[int]
    """Each request with the alternative that takes most; where nobody knows how much, the smallest amount."""


class Bounds:
    """Of claims that may count in a quota's resources; what asks alike is compared once."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self._known: dict[tuple[int, bool], ClaimBounds] = {}
        """By identity of the requests, and whether devices give shares."""
        self._length = 0
        """Characters of their selectors."""

    def rows(self, slot: RequestSlot, *, shares: bool) -> list[list[int]]:
        """Return what each alternative takes of each resource at least; `shares`: some devices give shares."""
        return [self._row(request, shares=shares) for request in slot.alternatives]

    def _row(self, request: Request, *, shares: bool) -> list[int]:
        return [resource.least(request, shares=shares) for resource in self._resources]

    def of(self, claim: Claim, *, shares: bool) -> ClaimBounds:
        """Return those of a claim; `shares`: some devices give shares, so that a request may take less than a device."""
        key = id(claim.slots), shares
        known = self._known.get(key)
        if known is None:
            known = self._found(claim.slots, shares=shares)
            self._length += length_of(claim.slots)
            while len(self._known) >= MOST_KEPT or (self._known and self._length > LONGEST_KEPT):
                self._length -= length_of(self._known.pop(next(iter(self._known))).slots)
            self._known[key] = known
        return known

    def steps(self, claims: Iterable[Claim], *, shares: bool) -> Iterator[None]:
        """Find out those of claims of which they are not known; yields before each."""
        for claim in claims:
            if (id(claim.slots), shares) not in self._known:
                yield
                self.of(claim, shares=shares)

    def _found(self, slots: tuple[RequestSlot, ...], *, shares: bool) -> ClaimBounds:
        total, most_more, dearest = ([0] * len(self._resources) for _ in range(3))
        for slot in slots:
            rows = self.rows(slot, shares=shares)
            columns = [*zip(*rows, strict=True)]
            total = [amount + min(column) for amount, column in zip(total, columns, strict=True)]
            most_more = [
                max(more, max(column) - min(column)) for more, column in zip(most_more, columns, strict=True)
            ]
            guesses = map(self._guessed, slot.alternatives, rows)
            dearest = [
                amount + max(column)
                for amount, column in zip(dearest, zip(*guesses, strict=True), strict=True)
            ]
        return ClaimBounds(slots, total, most_more, dearest)

    def _guessed(self, request: Request, row: Sequence[int]) -> list[int]:
        """Return what a request takes, and the smallest amount of what has a guarantee that it may count in; of all, if it counts in nothing else."""
        unknown = [resource.is_unknown(request) for resource in self._resources]
        rows = [*zip(self._resources, row, unknown, strict=True)]
        counts = any(amount or (guess and one.guaranteed) for one, amount, guess in rows)
        return [amount or int(guess and (not counts or one.guaranteed > 0)) for one, amount, guess in rows]


def length_of(slots: Iterable[RequestSlot]) -> int:
    """Return how many characters the selectors of requests have."""
    return sum([slot.length for slot in slots])
