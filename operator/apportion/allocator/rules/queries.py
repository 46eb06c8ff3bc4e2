"""Queries of claims that were read before: claims that say the same are read once.

In: claims. Out: what they ask. Claims made from one template share their parts, so most are known again by identity.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.memo import Memo
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.query import Query, read_query
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.taint import Toleration

MOST = 4096
"""Ways to ask that are remembered; parts of claims too."""


class Queries:
    """What claims ask, by what they say. Void when classes or features change."""

    def __init__(self) -> None:
        self._said: Memo[object, Query] = Memo(MOST)
        self._parts: Memo[object, tuple[object, Query]] = Memo(MOST)

    def __len__(self) -> int:
        return len(self._said) + len(self._parts)

    def clear(self) -> None:
        """Forget everything."""
        self._said.clear()
        self._parts.clear()

    def of(
        self,
        claims: Sequence[Claim],
        classes: Mapping[str, DeviceClass],
        features: Features,
        tolerations: tuple[Toleration, ...] = (),
    ) -> Query:
        """Return what the claims ask; raises BrokenInput naming claim, request and reason."""
        parts = (tuple([(id(claim.slots), id(claim.constraints)) for claim in claims]), tolerations)
        known = self._parts.get(parts)
        if known is not None:
            return known[1]
        said = _said(claims, tolerations)
        query = self._said.get(said)
        if query is None:
            query = read_query(claims, classes, features, tolerations)
            self._said[said] = query
        # The parts are kept, so that their ids stay their own.
        self._parts[parts] = tuple([(claim.slots, claim.constraints) for claim in claims]), query
        return query


def _said(claims: Sequence[Claim], tolerations: tuple[Toleration, ...]) -> object:
    """Return all that decides what claims mean; two that differ in nothing but names of their own say the same."""
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
                                        way.name,
                                        way.device_class,
                                        way.selectors,
                                        way.mode,
                                        way.count,
                                        way.admin_access,
                                        way.tolerations,
                                        tuple(way.capacity.items()) if way.capacity else (),
                                        way.unknown_selector,
                                    )
                                    for way in slot.alternatives
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
