"""FollowedClaims: claims for which a condition holds, and since when.

In: the snapshot's changes, the clock. Out: claims with the time since which the condition held without a break. The condition is
looked at again only for claims that changed, or whose pods or these pods' other claims did.
"""

from collections.abc import Callable, Iterator

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim


class FollowedClaims:
    """Claims whose allocation no pod has reserved, by how long a condition holds."""

    def __init__(
        self, snapshot: Snapshot, clock: Callable[[], float], condition: Callable[[Claim], bool]
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._condition = condition
        self._cursor = -1
        self._since: dict[str, float] = {}
        """By UID, the longest first."""
        self._names: dict[tuple[str, str], str] = {}
        """The UID of each of them by namespace and name: a claim that goes away is known by its name only."""

    def follow(self) -> None:
        """Look at what changed."""
        index = self._snapshot.claim_index
        self._cursor, changed = self._snapshot.changes.claims.since(self._cursor)
        if changed is None:
            kept = {claim.uid for claim in self._snapshot.claims_of(self._since)}
            for name, uid in tuple(self._names.items()):
                if uid not in kept:
                    self._drop(name)
            for claim in self._snapshot.claims_of({*index.unreserved, *kept}):
                self.look(claim)
            return
        for name in dict.fromkeys(changed):
            found = index.named(*name)
            if self._names.get(name, found) != found:
                self._drop(name)
            for claim in self._snapshot.claims_of((found,) if found else ()):
                self.look(claim)

    def look(self, claim: Claim) -> None:
        """Look at a claim again: something changed that the condition depends on."""
        name = claim.namespace, claim.name
        if claim.uid not in self._snapshot.claim_index.unreserved or not self._condition(claim):
            self._drop(name)
        elif claim.uid not in self._since:
            self._names[name] = claim.uid
            self._since[claim.uid] = self._clock()

    def items(self) -> Iterator[tuple[Claim, float]]:
        """Yield the claims, and since when the condition holds for each; the longest first."""
        claims = self._snapshot.claims
        return ((claims[uid], since) for uid, since in tuple(self._since.items()) if uid in claims)

    def _drop(self, name: tuple[str, str]) -> None:
        uid = self._names.pop(name, None)
        if uid is not None:
            del self._since[uid]
