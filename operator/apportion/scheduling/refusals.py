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
        self._read: tuple[int, tuple[int, int, int]] = -1, (-1, -1, -1)
        """The host epoch and the epoch in which the room of nodes was read, by which demands are refused now."""

    def keep(self, keys: frozenset[str]) -> None:
        """Forget the refusals of all other demands."""
        self._epochs = {key: epoch for key, epoch in self._epochs.items() if key in keys}

    def refresh(self) -> None:
        """Note that the room of nodes is read now."""
        self._read = self._snapshot.host_epoch, self._epoch()

    @property
    def outdated(self) -> bool:
        """Whether something happened since the room of nodes was read: a refusal is then good for this pass only."""
        return self._read != (self._snapshot.host_epoch, self._epoch())

    def refuse(self, key: str, verdict: str) -> None:
        """Remember that a demand cannot be served now; `verdict` is for the metric."""
        host_epoch, epoch = self._read
        if host_epoch == self._snapshot.host_epoch:
            self._epochs[key] = epoch
        else:
            self._epochs.pop(key, None)
        metrics.DECISIONS.labels(verdict).inc()

    def stands(self, key: str) -> bool:
        """Say whether a demand was refused and nothing happened since that may let it in."""
        epoch = self._epochs.get(key)
        return epoch is not None and epoch == self._epoch()

    def _epoch(self) -> tuple[int, int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self._snapshot.retry_epoch, self._exclusions.epoch(), self._still_prepared.epoch()
