"""Queries: one query for all claims with equal text, read once.

In: claims. Out: their query. Claims made from one ResourceClaimTemplate share slots and constraints by identity, so most
are found by two ids instead of their text.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.memo import Memo
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.query import Query, read_query
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.taint import Toleration

MOST = 4096
"""Queries kept by text, and as many by identity."""


class Queries:
    """The queries read so far. Their owner clears them when a device class changes."""

    def __init__(self) -> None:
        self._by_text: Memo[object, Query] = Memo(MOST)
        self._by_identity: Memo[object, tuple[object, Query]] = Memo(MOST)

    def __len__(self) -> int:
        return len(self._by_text) + len(self._by_identity)

    def clear(self) -> None:
        """Forget everything."""
        self._by_text.clear()
        self._by_identity.clear()

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
        text = _text_of(claims, tolerations)
        query = self._by_text.get(text)
        if query is None:
            query = read_query(claims, classes, features, tolerations)
            self._by_text[text] = query
        # Slots and constraints are kept, so that their ids are not used for other objects.
        self._by_identity[ids] = tuple([(claim.slots, claim.constraints) for claim in claims]), query
        return query


def _text_of(claims: Sequence[Claim], tolerations: tuple[Toleration, ...]) -> object:
    """Key of everything that decides the query: all of the claims but their own names."""
    return tolerations, tuple(
        [
            (
                tuple(
                    [
                        (
                            slot.name,
                            slot.prioritized,
                            tuple(
                                [
                                    (
                                        request.name,
                                        request.device_class,
                                        request.selectors,
                                        request.mode,
                                        request.count,
                                        request.admin_access,
                                        request.tolerations,
                                        tuple(request.capacity.items()) if request.capacity else (),
                                        request.unknown_selector,
                                    )
                                    for request in slot.alternatives
                                ]
                            ),
                        )
                        for slot in claim.slots
                    ]
                ),
                tuple(
                    [
                        (constraint.requests, constraint.match, constraint.distinct)
                        for constraint in claim.constraints
                    ]
                )
                if claim.constraints
                else (),
            )
            for claim in claims
        ]
    )
