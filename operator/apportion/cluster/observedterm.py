"""ObservedTerm: another replica's term, as a follower sees it.

In: versions of the Lease that others wrote, the clock. Out: whether the term is over, and when. Clocks of replicas differ: another's term ends
when its record has not changed for that long by our own clock (client-go leaderelection).
"""

from collections.abc import Callable

NOTICE = 0.8
"""Seconds before the end at which `is_ending` says so: what is then asked of the server takes one to two."""


class ObservedTerm:
    """The latest record of another that this replica has seen; none at first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._observed: tuple[str, float] | None = None
        """Version of the record, empty if the Lease was deleted, and when it was first seen."""
        self._seconds = 0.0
        """How long the record lasts."""
        self._noticed: tuple[str, float] | None = None
        """The record of which `is_ending` has said so."""

    def left(self) -> float:
        """Seconds until the term ends; at most 0 where it has ended, or none was seen."""
        return self._observed[1] + self._seconds - self._clock() if self._observed else 0.0

    def is_over(self, version: str, seconds: float) -> bool:
        """Say whether the record has had this version for longer than it lasts."""
        self._seconds = seconds
        if self._observed is None or self._observed[0] != version:
            self._observed = version, self._clock()
            return False
        return self.left() < 0

    def holds_after_deletion(self) -> bool:
        """Say whether the holder of a Lease that somebody has deleted may write yet: it learns of that when it renews."""
        return self._observed is not None and not self.is_over("", self._seconds)

    def is_ending(self) -> bool:
        """Say once of each record that its term is about to end."""
        if self._observed is None or self._observed == self._noticed or self.left() > NOTICE:
            return False
        self._noticed = self._observed
        return True

    def forget(self) -> None:
        """Forget the record: this replica holds the lease."""
        self._observed = None
