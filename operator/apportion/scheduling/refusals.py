"""Refusals: the demands that were refused, until something happens that may let them in.

In: refusals, by the key of a demand or group; the epochs of snapshot, exclusions and still prepared claims. Out: whether
a refusal still stands, so that the same question is not asked in every pass.
"""

from apportion import metrics
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.stillprepared import StillPrepared


class Refusals:
    """The epoch in which each demand was last refused."""

    def __init__(self, snapshot: Snapshot, exclusions: Exclusions, still_prepared: StillPrepared) -> None:
        self._snapshot = snapshot
        self._exclusions = exclusions
        self._still_prepared = still_prepared
        self._epochs: dict[str, tuple[int, int, int]] = {}

    def keep(self, keys: frozenset[str]) -> None:
        """Forget the refusals of all other demands."""
        self._epochs = {key: epoch for key, epoch in self._epochs.items() if key in keys}

    def refuse(self, key: str, verdict: str) -> None:
        """Remember that a demand cannot be served now; `verdict` is for the metric."""
        self._epochs[key] = self._epoch()
        metrics.DECISIONS.labels(verdict).inc()

    def stands(self, key: str) -> bool:
        """Say whether a demand was refused and nothing happened since that may let it in."""
        return self._epochs.get(key) == self._epoch()

    def _epoch(self) -> tuple[int, int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self._snapshot.retry_epoch, self._exclusions.epoch(), self._still_prepared.epoch()
