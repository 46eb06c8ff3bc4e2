"""Queries of claims that were read before: claims that say the same are read once.

In: claims. Out: what they ask. Claims made from one template share their parts, so most are known again by identity.
"""

from collections.abc import Mapping, Sequence

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
        self._said: dict[object, Query] = {}
        self._parts: dict[object, tuple[object, Query]] = {}

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
        meaning = self._said.get(said)
        if meaning is None:
            meaning = read_query(claims, classes, features, tolerations)
            if len(self._said) >= MOST:
                self._said.clear()
            self._said[said] = meaning
        if len(self._parts) >= MOST:
            self._parts.clear()
        # The parts are kept, so that their ids stay their own.
        self._parts[parts] = tuple([(claim.slots, claim.constraints) for claim in claims]), meaning
        return meaning


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
                tuple([(rule.requests, rule.match, rule.distinct) for rule in claim.constraints])
                if claim.constraints
                else (),
            )
            for claim in claims
        ]
    )
