"""Refusals: the demands that were refused, until something happens that may let them in.

In: refusals, by the key of a demand or group; the epochs of snapshot, exclusions and still prepared claims. Out: whether
a refusal still stands, so that the same question is not asked in every pass, nor for every demand of one shape.
"""

from apportion import metrics
from apportion.allocator.decision import Refusal
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.stillprepared import StillPrepared

MOST_SHAPES = 4096
"""Shapes of demands whose refusal is kept."""


class Refusals:
    """The epoch in which each demand was last refused, and the refusals of shapes in this epoch."""

    def __init__(self, snapshot: Snapshot, exclusions: Exclusions, still_prepared: StillPrepared) -> None:
        self._snapshot = snapshot
        self._exclusions = exclusions
        self._still_prepared = still_prepared
        self._epochs: dict[str, tuple[int, int, int]] = {}
        self._shapes: dict[object, Refusal | str] = {}
        """Refusals, or why no node can take the pods, by shape of the demands; all of one host epoch and epoch."""
        self._shapes_epoch: object = None
        self._read: tuple[int, tuple[int, int, int]] = -1, (-1, -1, -1)
        """The host epoch and the epoch in which the room of nodes was read, by which demands are refused now."""

    def keep(self, keys: frozenset[str]) -> None:
        """Forget the refusals of all other demands."""
        self._epochs = {key: epoch for key, epoch in self._epochs.items() if key in keys}

    def refresh(self) -> None:
        """Note that the room of nodes is read now."""
        self._read = self._snapshot.changes.hosts.end, self._epoch()

    @property
    def outdated(self) -> bool:
        """Whether something happened since the room of nodes was read: a refusal is then good for this pass only."""
        return self._read != (self._snapshot.changes.hosts.end, self._epoch())

    def refuse(self, key: str, verdict: str) -> None:
        """Remember that a demand cannot be served now; `verdict` is for the metric."""
        host_epoch, epoch = self._read
        if host_epoch == self._snapshot.changes.hosts.end:
            self._epochs[key] = epoch
        else:
            self._epochs.pop(key, None)
        metrics.DECISIONS.labels(verdict).inc()

    def refuse_shape(self, shape: object | None, refusal: Refusal | str) -> None:
        """Remember a refusal for all demands of a shape (None: like no other)."""
        # A message about an error names the claim.
        shared = isinstance(refusal, str) or all(
            group.kind != "error" for group in refusal.explanation.groups
        )
        if shape is not None and shared and not self.outdated:
            self._shapes[shape] = refusal

    def of_shape(self, shape: object | None) -> Refusal | str | None:
        """Return the refusal of demands of this shape, if nothing happened since that may let them in."""
        epoch = self._snapshot.changes.hosts.end, self._epoch()
        if epoch != self._shapes_epoch or len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
            self._shapes_epoch = epoch
        return self._shapes.get(shape) if shape is not None else None

    def stands(self, key: str) -> bool:
        """Say whether a demand was refused and nothing happened since that may let it in."""
        epoch = self._epochs.get(key)
        return epoch is not None and epoch == self._epoch()

    def _epoch(self) -> tuple[int, int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self._snapshot.retry_epoch, self._exclusions.epoch(), self._still_prepared.epoch()
