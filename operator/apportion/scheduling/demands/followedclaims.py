"""FollowedClaims: claims for which a condition holds, and since when.

In: the snapshot's changes, the clock. Out: claims with the time since which the condition held without a break. The condition is
looked at again only for claims that changed, or whose pods or these pods' other claims did.
"""

from collections.abc import Callable, Iterator

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.pace import Changed

_FEW = 2
"""Pods of a claim for which it is not added up what they name: almost no claim has more."""


class FollowedClaims:
    """Claims by how long a condition holds, without a change of what has reserved them."""

    def __init__(
        self, snapshot: Snapshot, clock: Callable[[], float], condition: Callable[[Claim], bool]
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._condition = condition
        self._cursor = -1
        self._since: dict[tuple[str, str], tuple[Claim, float]] = {}
        """The claim then, and the time, by namespace and name: a claim that goes away is known by its name only. The longest first."""
        self._changed = Changed[tuple[str, str]]()
        """By namespace and name."""

    def begin_anew(self) -> None:
        """Count from now on: what claims were used for meanwhile was not looked at."""
        self._cursor = -1
        self._since.clear()

    def doubt(self) -> None:
        """Let all claims be looked at: something changed that the condition of any of them may depend on."""
        self._cursor = -1

    def follow(self) -> None:
        """Look at what changed."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Look at what changed; yields where others may run."""
        self._cursor, changed = self._snapshot.changes.claims.since(self._cursor)
        if changed is None:
            allocated = self._snapshot.claims_of(self._snapshot.claim_index.allocated)
            changed = [*self._since, *((claim.namespace, claim.name) for claim in allocated)]
        yield from self._changed.steps(changed, self._look_named)

    def _look_named(self, name: tuple[str, str]) -> int:
        """Look at a claim of this name; returns how much the condition looks at: pods that name it, and what these name, where they are more than a few."""
        uid = self._snapshot.claim_index.named(*name)
        claim = self._snapshot.claims.get(uid) if uid is not None else None
        if claim is None:
            self._since.pop(name, None)
            return 1
        self.look(claim)
        users = self._snapshot.pod_index.users(*name)
        if len(users) <= _FEW:
            return 1
        return sum([1 + len(pod.claims) for pod in self._snapshot.pods_of(users)])

    def look(self, claim: Claim) -> None:
        """Look at a claim again: something changed that the condition depends on."""
        name = claim.namespace, claim.name
        if claim.allocation is None or not self._condition(claim):
            self._since.pop(name, None)
        elif name not in self._since or not _is_same(self._since[name][0], claim):
            self._since.pop(name, None)
            self._since[name] = claim, self._clock()

    def look_anew(self, claim: Claim) -> None:
        """Look at a claim again, and count from now on where the condition holds."""
        self._since.pop((claim.namespace, claim.name), None)
        self.look(claim)

    def items(self) -> Iterator[tuple[Claim, float]]:
        """Yield the claims, and since when the condition holds for each; the longest first."""
        claims = self._snapshot.claims
        return ((claims[c.uid], since) for c, since in tuple(self._since.values()) if c.uid in claims)


def _is_same(before: Claim, now: Claim) -> bool:
    return before.uid == now.uid and before.reserved_for == now.reserved_for
