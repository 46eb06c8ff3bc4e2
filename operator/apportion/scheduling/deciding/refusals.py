"""Refusals: the demands that were refused, until something happens that may let them in.

In: refusals, by the key of a demand or group; the epochs of snapshot, exclusions and still prepared claims. Out: whether
a refusal still stands, so that the same question is not asked in every pass, nor for every demand of one shape. Whatever else
rules out nodes for a single demand of a shape, the refusal of the shape holds for it too.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from apportion import metrics
from apportion.allocator.decision import Refusal
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.demands.alikedemands import AlikeDemands
from apportion.scheduling.demands.shape import Shape
from apportion.scheduling.demands.waiting import Row, WaitingDemand, place_of
from apportion.scheduling.pace import Pace

MOST_SHAPES = 4096
"""Shapes of demands whose refusal is kept."""
RENEWED = 300.0
"""Seconds after which a demand is looked at by itself, although its shape is refused, so that its Event says what is true now."""
EXPLAINED = 10.0
"""Seconds for which the explanation of a refusal is good for others of its shape, as long as the shape is refused."""
MOST_RENEWED = 64
"""Demands looked at in one pass for that reason."""
_UNSERVABLE = frozenset({"broken", "defect", "costly"})
"""Verdicts about demands that get nothing whatever is free."""
_NEVER = -1, -1, -1
"""An epoch that is over."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """The last refusal of a demand."""

    row: Row
    alike: AlikeDemands
    at: float
    """When it was looked at, by the clock."""


@dataclass(frozen=True, slots=True)
class _Explained:
    """Why demands of a shape were refused."""

    refusal: Refusal | str
    epoch: object
    """Of hosts, and of all else that may let them in."""
    at: float
    """When it was explained, by the clock."""


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
        self._verdicts: dict[str, str] = {}
        """The last ones, by key of the demand or group."""
        self._shapes: dict[object, _Explained] = {}
        """Refusals, or why no node can take the pods, by shape of the demands."""
        self._read: tuple[int, tuple[int, int, int]] = -1, _NEVER
        """The host epoch and the epoch in which the room of nodes was read, by which demands are refused now."""
        self._refused: dict[str, _Refused] = {}
        """By key of the demand, in the order in which they were looked at."""
        self._alike: dict[tuple[str, int, object], AlikeDemands] = {}
        self._single: dict[str, Row] = {}
        """All other demands, by key."""
        self._queue = AlikeDemands(None)
        """The same, in order."""
        self._volumes = -1
        """How far the changes of volumes were read."""
        self._refused_now: set[object] = set()
        """Shapes that are refused as far as is known since the room of nodes was read."""
        self.defects: set[str] = set()
        """Demands (keys) at which deciding broke down when they were looked at last: nobody else asks about them."""

    def follow(self, gone: Iterable[str], came: Iterable[WaitingDemand]) -> Iterator[None]:
        """Note the demands that went or changed (by key), and those of no single group that came or changed; yields where others may run."""
        pace, managed = Pace(), self._snapshot.managed
        for key in gone:
            if pace.rests():
                yield
            self._uncover(key)
            self._drop(key)
        for demand in came:
            if pace.rests():
                yield
            self._put((place_of(demand, managed), demand))
        yield from self._doubt_volumes()

    def _doubt_volumes(self) -> Iterator[None]:
        """Have demands looked at by themselves whose volumes changed: what they ask of nodes may not be what others of their shape ask any more."""
        end, changed = self._snapshot.volumes.changes.since(self._volumes)
        if changed is None or changed:
            names = dict[str, set[str]]()
            for namespace, name in changed or ():
                names.setdefault(namespace, set()).add(name)
            pace = Pace()
            for (namespace, *_), alike in tuple(self._alike.items()):
                of_volumes = isinstance(alike.shape, Shape) and alike.shape.named
                if not of_volumes or (changed is not None and namespace not in names):
                    continue
                for row in tuple(alike.rows):
                    if pace.rests(len(row[1].pods) or 1):
                        yield
                    named = (pod.volumes for pod in row[1].pods)
                    if changed is None or not all(map(names[namespace].isdisjoint, named)):
                        self._uncover(row[1].key)
                        self._put(row)
        # Who ends in between has to look at all of them once more.
        self._volumes = end

    def forget(self, keys: Iterable[str]) -> None:
        """Forget the refusals of these demands and groups, which do not wait any more."""
        for key in keys:
            self._epochs.pop(key, None)
            self._verdicts.pop(key, None)
            self.defects.discard(key)

    def doubt(self, keys: Iterable[str]) -> None:
        """Note that these demands and groups changed: what they were refused for may not be true of them any more."""
        for key in keys:
            if key in self._epochs:
                self._epochs[key] = _NEVER

    def split(self) -> tuple[list[WaitingDemand], list[tuple[WaitingDemand, ...]]]:
        """Return the demands to be looked at each by itself, and the refused ones, together where one can be asked for all.

        All are in their order. A few that were looked at long ago are among the former.
        """
        now, known = self._clock(), self._refused
        old = takewhile(lambda key: now - known[key].at >= RENEWED, known)
        for key in tuple(islice(old, MOST_RENEWED)):
            row = self._uncover(key)
            if row is not None:
                self._put(row)
        alike = [tuple(each.demands) for each in self._alike.values()]
        return [*self._queue.demands], alike

    def refresh(self) -> None:
        """Note that the room of nodes is read now."""
        self._read = self._snapshot.changes.hosts.end, self.epoch
        self._refused_now.clear()

    def reopen(self) -> None:
        """Note that devices became free in this pass, so that shapes that were refused before may not be refused now."""
        self._refused_now.clear()

    def epoch_of(self, key: str) -> tuple[int, int, int] | None:
        """Return the epoch in which a demand was refused; None if that was good for one pass only, or never happened."""
        return self._epochs.get(key)

    @property
    def outdated(self) -> bool:
        """Whether something happened since the room of nodes was read: a refusal is then good for this pass only."""
        return self._read != (self._snapshot.changes.hosts.end, self.epoch)

    def refuse(self, key: str, verdict: str) -> None:
        """Remember that a demand cannot be served now; `verdict`: one of those of the metric."""
        host_epoch, epoch = self._read
        if host_epoch == self._snapshot.changes.hosts.end:
            self._epochs[key] = epoch
        else:
            self._epochs.pop(key, None)
        self._verdicts[key] = verdict
        metrics.DECISIONS.labels(verdict).inc()

    def refuse_shape(self, shape: object | None, refusal: Refusal | str, *, named: bool) -> None:
        """Remember a refusal for all demands of a shape (None: like no other); `named`: its text names objects of one of them."""
        # A message about an error names the claim.
        shared = isinstance(refusal, str) or all(
            group.kind != "error" for group in refusal.explanation.groups
        )
        if shape is not None and shared:
            self._refused_now.add(shape)
            if not self.outdated and not named:
                if len(self._shapes) >= MOST_SHAPES:
                    self._shapes.clear()
                self._shapes[shape] = _Explained(refusal, self._read, self._clock())

    def refuse_anew(self, shape: object) -> None:
        """Remember that a shape is still refused: those of it that an Event told why wait on."""
        self._refused_now.add(shape)

    def refuse_with_shape(self, demand: WaitingDemand, shape: object | None) -> None:
        """Refuse a demand anew, and with it all of its shape (None: like no other); the explanation that it got is good for a while."""
        if shape is not None:
            self._refused_now.add(shape)
        self.refuse(demand.key, "as before")

    def cover(self, demand: WaitingDemand, shape: object | None, *, costly: bool = False) -> None:
        """Let the demand, which was refused now, stay refused as long as others of its shape are.

        `costly`: its selectors cost too much, so that all of its shape are refused.
        """
        key = demand.key
        row = self._uncover(key) or self._single.get(key)
        if row is None:
            return  # it was never followed: a pass over other demands
        if shape is None:
            self._put(row)
            return
        if costly or self.of_shape(shape) is not None:
            self._refused_now.add(shape)
        own = demand.claims[0].namespace, demand.priority, shape
        alike = self._alike.setdefault(own, AlikeDemands(shape))
        self._drop(key)
        alike.add(row)
        self._refused[key] = _Refused(row, alike, self._clock())

    def _put(self, row: Row) -> None:
        """Let a demand be looked at by itself, in its place."""
        self._drop(row[1].key)
        self._single[row[1].key] = row
        self._queue.add(row)

    def _drop(self, key: str) -> None:
        """Forget a demand that was to be looked at by itself."""
        row = self._single.pop(key, None)
        if row is not None:
            self._queue.remove(row)

    def _uncover(self, key: str) -> Row | None:
        """Let a demand be looked at by itself; returns None if it was already."""
        last = self._refused.pop(key, None)
        if last is None:
            return None
        last.alike.remove(last.row)
        if not last.alike.rows:
            _, demand = last.row
            del self._alike[demand.claims[0].namespace, demand.priority, last.alike.shape]
        return last.row

    def of_shape(self, shape: object | None) -> Refusal | str | None:
        """Return the refusal of demands of this shape, if nothing happened since that may let them in."""
        known = self._shapes.get(shape) if shape is not None else None
        if known is None:
            return None
        if known.epoch == (self._snapshot.changes.hosts.end, self.epoch):
            return known.refusal
        fresh = shape in self._refused_now and self._clock() - known.at < EXPLAINED
        return known.refusal if fresh else None

    def alike_of(self, key: str) -> object | None:
        """Return what stands for the refused demands of this one's shape, namespace and priority, to compare by identity; None: it is like no other."""
        last = self._refused.get(key)
        return last.alike if last is not None else None

    def is_explained(self, demand: WaitingDemand, shape: object | None) -> bool:
        """Say whether a demand was refused for this shape, and its Event need not be made anew."""
        last = self._refused.get(demand.key)
        return last is not None and last.alike.shape == shape and self._clock() - last.at < RENEWED

    def stands(self, key: str) -> bool:
        """Say whether a demand was refused and nothing happened since that may let it in."""
        last = self._refused.get(key)
        if self._epochs.get(key) == self.epoch:
            if last is not None:
                self._refused_now.add(last.alike.shape)
            return True
        # If others of its shape are refused, it would be too.
        return self.is_refused(key) and last is not None and self._clock() - last.at < RENEWED

    def was_refused(self, key: str) -> bool:
        """Say whether a demand was refused in an earlier pass or in this one."""
        return key in self._epochs

    def is_unservable(self, key: str) -> bool:
        """Say whether a demand was refused last for something else than what others have: it gets nothing whatever is free."""
        return self._verdicts.get(key) in _UNSERVABLE

    def is_refused_shape(self, shape: object | None) -> bool:
        """Say whether demands of this shape are refused, as far as is known since the room of nodes was read."""
        return shape in self._refused_now or self.of_shape(shape) is not None

    def is_refused(self, key: str) -> bool:
        """Say whether the shape for which a demand was refused is refused, as far as is known since the room of nodes was read."""
        last = self._refused.get(key)
        return last is not None and last.alike.shape in self._refused_now

    @property
    def epoch(self) -> tuple[int, int, int]:
        """What changes whenever a refused demand may get another answer."""
        return self._snapshot.retry_epoch, self._exclusions.epoch(), self._still_prepared.epoch()
