"""Fitness: whether this replica may lead, lives, and is ready.

In: its reflectors, how long it holds the lease, its passes, its parts. Out: the reason why not, or None.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from apportion import metrics
from apportion.cluster.reflector import Reflector
from apportion.parts import Parts

_SILENT = 180.0
"""Seconds without a word about a kind, bookmarks included, after which a replica is not ready, and a leader leaves the lease to others."""


class Fitness:
    """Answers what the lease's thread and the probes of kubelet ask."""

    def __init__(
        self,
        reflectors: Sequence[Reflector],
        parts: Parts,
        *,
        held: Callable[[], float],
        age: Callable[[], float],
        within: float,
        stuck: float,
    ) -> None:
        """`held`: for how many seconds this replica has held the lease; `age`: seconds since its last pass began.

        `within`: seconds in which a leader has to act; `stuck`: seconds without a pass after which it is not well.
        """
        self._reflectors = reflectors
        self._parts = parts
        self._held = held
        self._age = age
        self._within = within
        self._stuck = stuck
        self._acting_since: float | None = None
        self._acted = float("-inf")
        """When this replica last ended to act: one that steps down or ends is not one that cannot act."""

    @property
    def acting(self) -> bool:
        """Say whether this replica acts."""
        return self._acting_since is not None

    def set_acting(self, *, acting: bool) -> None:
        """Learn that this replica begins or ends to act."""
        if not acting:
            self._acted = time.monotonic()
            # Another replica says now what waits.
            metrics.PENDING.set(0)
            metrics.OVERLAPS.set(0)
        self._acting_since = time.monotonic() if acting else None
        metrics.LEADING.set(acting)

    def unfit(self) -> str | None:
        """Say why this replica must not lead. The lease's thread asks, so it looks at single values only."""
        held = self._held()
        missing = [
            each.kind.plural
            for each in self._reflectors
            if not each.synced.is_set() and (not held or each.missed() > self._within)
        ]
        if missing:
            return f"{', '.join(missing)} are not listed"
        # Where no replica hears of a kind each leads in its turn; what we have no right to read another one does not read either.
        observed = (each for each in self._reflectors if not each.refused)
        if held > _SILENT and (silence := _silence(observed)):
            return silence
        if self._acting_since is None and min(held, time.monotonic() - self._acted) > self._within:
            return f"it did not act within {self._within:.0f} s"
        return self._stalled()

    def unhealthy(self) -> str | None:
        """Say why the process should be ended and started anew; None: it should not."""
        return self._parts.failure or self._stalled()

    def unready(self) -> str | None:
        """Say which kinds are not observed; None when all are."""
        missing = [each.kind.plural for each in self._reflectors if not each.synced.is_set()]
        if missing:
            return f"not listed yet, or not served: {', '.join(missing)}"
        return _silence(self._reflectors)

    def _stalled(self) -> str | None:
        # A stand-by makes no passes: only what it did since it began to act counts.
        since = self._acting_since
        silent = 0.0 if since is None else min(self._age(), time.monotonic() - since)
        return f"no pass for {silent:.0f} s" if silent > self._stuck else None


def _silence(reflectors: Iterable[Reflector]) -> str | None:
    """Say of which kinds the server has said nothing for too long."""
    silent = [each.kind.plural for each in reflectors if each.age() > _SILENT]
    return f"not heard of for {_SILENT:.0f} s: {', '.join(silent)}" if silent else None
