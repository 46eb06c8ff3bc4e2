"""GoneConsumers: claims that stay reserved for pods that are gone.

In: the snapshot, the clock. Out: claims whose consumers controller-manager has to look at once more.
Its controller of claims removes the reservation of a pod whose end it has seen, and asks about other pods only when a claim changes
(resourceclaim controller, `syncClaim`, 1.36.3 and 1.37.0). Of a pod that came and went while its watch of pods was broken, for up to a minute after
an API server has restarted a few times, it never hears: the devices stay with the claim until somebody changes that.
"""

from collections.abc import Callable, Iterator
from typing import Final

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.demands.followedclaims import FollowedClaims

PATIENCE: Final = 60.0
"""Seconds that controller-manager has for it; where it did not answer to a change, twice as many each time."""
_LONGEST: Final = 3600.0


class GoneConsumers:
    """Follows the claims that we allocated, and the pods that they are reserved for."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float], *, manager: str) -> None:
        """`manager` is our field manager: only what we wrote is looked at."""
        self._snapshot = snapshot
        self._clock = clock
        self._manager = manager
        self._outdated = FollowedClaims(snapshot, clock, self._is_outdated)
        self._asked: dict[str, tuple[float, float]] = {}
        """By claim, when it is due again, and how long that pause is."""

    def begin_anew(self) -> None:
        """Count the time from now on."""
        self._outdated.begin_anew()

    def steps(self) -> Iterator[None]:
        """Look at what changed; yields where others may run."""
        return self._outdated.steps()

    def due(self) -> Iterator[Claim]:
        """Yield the claims that are reserved for a pod that has been gone for long; the caller changes them."""
        now = self._clock()
        self._outdated.follow()
        former, self._asked = self._asked, {}
        for claim, since in self._outdated.items():
            if now - since < PATIENCE:
                break
            at, pause = former.get(claim.uid, (since, PATIENCE))
            if at <= now:
                at, pause = now + pause, min(2 * pause, _LONGEST)
                yield claim
            self._asked[claim.uid] = at, pause

    def _is_outdated(self, claim: Claim) -> bool:
        return claim.allocated_by == self._manager and any(
            each.resource == "pods" and not each.api_group and each.uid not in self._snapshot.pods
            for each in claim.reserved_for
        )
