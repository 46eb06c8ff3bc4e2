"""Queries: one query for all claims with equal text, read once.

In: claims. Out: their query. Claims made from one ResourceClaimTemplate share slots and constraints by identity, so most
are found by two ids instead of their text.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from apportion.allocator.memo import keep
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.query import Query, read_query
from apportion.dra.claim import Claim, Request, RequestSlot
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput

MOST = 4096
"""Queries kept by text, and as many by identity."""
LONGEST: Final = 32_768
"""Characters of all selectors of the claims that are decided together, each text once. The API bounds one selector (10,240), and allows a
claim thousands; this many compile in a second or two."""

KEPT: Final = 1 << 23
"""Characters of selectors after which all queries are forgotten: thousands of claims with the longest ones would keep a hundred MB and more,
also when they are gone."""


class Queries:
    """The queries read so far. Their owner clears them when a device class changes."""

    def __init__(self) -> None:
        self._by_text: dict[object, Query] = {}
        self._by_identity: dict[object, tuple[object, Query]] = {}
        self._length = 0
        """Characters of selectors that were kept since they were last forgotten."""

    def __len__(self) -> int:
        return len(self._by_text) + len(self._by_identity)

    def clear(self) -> None:
        """Forget everything."""
        self._by_text.clear()
        self._by_identity.clear()
        self._length = 0

    def of(
        self,
        claims: Sequence[Claim],
        classes: Mapping[str, DeviceClass],
        features: Features,
        tolerations: tuple[Toleration, ...] = (),
    ) -> Query:
        """Return the query of the claims; raises BrokenInput naming claim, request and reason."""
        ids = (tuple([(id(claim.slots), id(claim.constraints)) for claim in claims]), tolerations)
        known = self._by_identity.get(ids)
        if known is not None:
            return known[1]
        self._length += sum([len(text) for request in _requests(claims) for text in request.selectors])
        if self._length > KEPT:
            self.clear()
        text = _text_of(claims, tolerations)
        query = self._by_text.get(text)
        if query is None:
            _check_selectors(claims)
            query = keep(self._by_text, text, read_query(claims, classes, features, tolerations), MOST)
        # Slots and constraints are kept, so that their ids are not used for other objects.
        used = tuple([(claim.slots, claim.constraints) for claim in claims])
        keep(self._by_identity, ids, (used, query), MOST)
        return query


def _requests(claims: Sequence[Claim]) -> Iterator[Request]:
    return (request for claim in claims for slot in claim.slots for request in slot.alternatives)


def _check_selectors(claims: Sequence[Claim]) -> None:
    """Raise BrokenInput at the selector with which those of the claims are longer than LONGEST."""
    seen: set[str] = set()
    length = 0
    for claim in claims:
        for request in _requests((claim,)):
            for number, text in enumerate(request.selectors):
                length += 0 if text in seen else len(text)
                seen.add(text)
                if length > LONGEST:
                    raise BrokenInput(
                        f"claim {claim.key}, request {request.name}: with selector #{number} those of the pod's claims"
                        f" have more than {LONGEST} characters",
                        field=f"{request.at}.selectors[{number}]",
                    )


_request_fields = attrgetter(
    "name",
    "device_class",
    "selectors",
    "mode",
    "count",
    "admin_access",
    "tolerations",
    "unknown_selector",
    "derived",
)


def _text_of(claims: Sequence[Claim], tolerations: tuple[Toleration, ...]) -> object:
    """Key of everything that decides the query: all of the claims but their own names."""
    return tolerations, tuple([(_slots(claim), _constraints(claim)) for claim in claims])


def _slots(claim: Claim) -> object:
    return tuple([(slot.name, slot.prioritized, _alternatives(slot)) for slot in claim.slots])


def _alternatives(slot: RequestSlot) -> object:
    return tuple(
        [(_request_fields(request), tuple(request.capacity.items())) for request in slot.alternatives]
    )


def _constraints(claim: Claim) -> object:
    return tuple([(each.requests, each.match, each.distinct) for each in claim.constraints])
