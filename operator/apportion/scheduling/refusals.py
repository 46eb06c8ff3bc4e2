"""Refusals: the demands that were refused, until something happens that may let them in.

In: refusals, by the key of a demand or group; the epochs of snapshot, exclusions and still prepared claims. Out: whether
a refusal still stands, so that the same question is not asked in every pass, nor for every demand of one shape. Whatever else
rules out nodes for a single demand of a shape, the refusal of the shape holds for it too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apportion import metrics
from apportion.allocator.decision import Refusal
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.stillprepared import StillPrepared
from apportion.scheduling.waiting import WaitingDemand

MOST_SHAPES = 4096
"""Shapes of demands whose refusal is kept."""
RETELL = 60.0
"""Seconds after which a demand is looked at by itself, although its shape is refused, so that its Event says what is true now."""
MOST_RETOLD = 64
"""Demands looked at in one pass for that reason."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """The last refusal of a demand."""

    demand: WaitingDemand
    shape: object
    at: float
    """When it was looked at, by the clock."""


class Refusals:
    """The epoch in which each demand was last refused, and the refusals of shapes in this epoch."""

    def __init__(
        self,
        snapshot: Snapshot,
        exclusions: Exclusions,
        still_prepared: StillPrepared,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._exclusions = exclusions
        self._still_prepared = still_prepared
        self._epochs: dict[str, tuple[int, int, int]] = {}
        self._shapes: dict[object, Refusal | str] = {}
        """Refusals, or why no node can take the pods, by shape of the demands; all of one host epoch and epoch."""
        self._shapes_epoch: object = None
        self._read: tuple[int, tuple[int, int, int]] = -1, (-1, -1, -1)
        """The host epoch and the epoch in which the room of nodes was read, by which demands are refused now."""
        self._refused: dict[str, _Refused] = {}
        """By key of the demand."""
        self._refused_now: set[object] = set()
        """Shapes that are refused as far as is known since the room of nodes was read."""
        self._retold = 0
        """Demands looked at in this pass although their shape was refused."""

    def begin(self, keys: frozenset[str], demands: Iterable[WaitingDemand]) -> None:
        """Start a pass over these demands, and groups with these keys; forget the refusals of all others."""
        self._epochs = {key: epoch for key, epoch in self._epochs.items() if key in keys}
        known = self._refused.get
        found = [(demand, known(demand.key)) for demand in demands]
        self._refused = {
            demand.key: last for demand, last in found if last is not None and last.demand is demand
        }
        self._retold = 0
        self.refresh()

    def refresh(self) -> None:
        """Note that the room of nodes is read now."""
        self._read = self._snapshot.changes.hosts.end, self._epoch()
        self._refused_now.clear()

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
        if shape is not None and shared:
            self._refused_now.add(shape)
            if not self.outdated:
                self._shapes[shape] = refusal

    def cover(self, demand: WaitingDemand, shape: object | None) -> None:
        """Let the demand, which was refused now, stay refused as long as others of its shape are."""
        if shape is None:
            self._refused.pop(demand.key, None)
            return
        if shape in self._shapes:
            self._refused_now.add(shape)
        now, last = self._clock(), self._refused.get(demand.key)
        self._retold += last is not None and now - last.at >= RETELL
        self._refused[demand.key] = _Refused(demand, shape, now)

    def of_shape(self, shape: object | None) -> Refusal | str | None:
        """Return the refusal of demands of this shape, if nothing happened since that may let them in."""
        epoch = self._snapshot.changes.hosts.end, self._epoch()
        if epoch != self._shapes_epoch or len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
            self._shapes_epoch = epoch
        return self._shapes.get(shape) if shape is not None else None

    def stands(self, key: str) -> bool:
        """Say whether a demand was refused and nothing happened since that may let it in."""
        epoch, last = self._epochs.get(key), self._refused.get(key)
        if epoch is not None and epoch == self._epoch():
            if last is not None:
                self._refused_now.add(last.shape)
            return True
        if last is None or last.shape not in self._refused_now:
            return False
        # Others of its shape are refused, so it would be too.
        return self._retold >= MOST_RETOLD or self._clock() - last.at < RETELL

    def _epoch(self) -> tuple[int, int, int]:
        """Return what changes whenever a refused demand may get another answer."""
        return self._snapshot.retry_epoch, self._exclusions.epoch(), self._still_prepared.epoch()
