"""Reached: whom walks looked at since one got to the end of the queue, and who of them is asked once more (ADR 14).

In: those that wait, and those that were asked and got nothing. Out: who comes after all others in the next walk; and who is asked
before one that comes behind it by priority or age, because something changed since it was refused: what came free is no newcomer's.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from apportion.api.policy import QueueOrder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.groups import Queued, first_of, key_of
from apportion.scheduling.pace import Pace
from apportion.scheduling.refusals import Refusals
from apportion.scheduling.waiting import WaitingDemand, place_of

MOST_REPEATED: Final = 64
"""How often somebody is asked once more in a walk."""
MOST_BY_AGE: Final = 16
"""How often of one namespace, or FIFO policy, before those of its own, and how many other namespaces: one that has much to ask for leaves others some, too."""

_Epoch: TypeAlias = tuple[int, int, int]
_Place: TypeAlias = tuple[int, str, str]


@dataclass(slots=True)
class _Row:
    """One that was asked."""

    place: _Place
    namespace: str
    queued: Queued | None
    """None: it got its devices."""
    asked: _Epoch | None
    """The epoch when that began, if it is known."""


@dataclass(slots=True)
class _Line:
    """Those that were asked, in their order, and how far they were looked at in an epoch."""

    rows: list[_Row] = field(default_factory=list)
    epoch: _Epoch | None = None
    looked_at: int = 0
    left: int = MOST_BY_AGE

    def put(self, row: _Row) -> None:
        """Add one, or note that it was asked once more."""
        if not self.rows or self.rows[-1].place < row.place:
            self.rows.append(row)
            return
        position = bisect_left(self.rows, row.place, key=lambda each: each.place)
        if self.rows[position] is not row:
            self.rows.insert(position, row)
            self.looked_at += position < self.looked_at
        if row.asked != self.epoch:
            self.looked_at = min(self.looked_at, position)

    def following(self, epoch: _Epoch, before: _Place | None = None) -> _Row | None:
        """Return the next one that was asked in another epoch than this, and comes before a place (None: any)."""
        if self.epoch != epoch:
            self.epoch, self.looked_at = epoch, 0
        while self.looked_at < len(self.rows):
            row = self.rows[self.looked_at]
            if before is not None and row.place >= before:
                return None
            self.looked_at += 1
            if row.asked != epoch and row.queued is not None:
                return row
        return None


class Reached:
    """Whom walks looked at."""

    def __init__(
        self,
        snapshot: Snapshot,
        refusals: Refusals,
        is_left_out: Callable[[Queued], bool],
        has_more: Callable[[str, str], bool],
    ) -> None:
        """`is_left_out`: whether one is not to be asked, whatever happened; `has_more`: whether a namespace comes behind another one of its cohort."""
        self._snapshot, self._refusals = snapshot, refusals
        self._is_left_out, self._has_more = is_left_out, has_more
        self.keys: frozenset[str] = frozenset()
        """The keys of the demands and groups that former walks reached, if the latest one ended early."""
        self._now: set[str] = set()
        self._rows: dict[str, _Row] = {}
        self._levels: dict[int, _Line] = {}
        """Those of one priority, by place in the queue: the highest priority has the lowest."""
        self._lines: dict[tuple[int, str | int], _Line] = {}
        """Those of one priority and namespace, or FIFO policy (its `id`)."""
        self._left = 0
        self._reopened: _Epoch | None = None
        """The latest epoch in which refusals of shapes were doubted."""
        self._others = set[str]()
        """Namespaces of which one was asked before one of another namespace."""

    def begin(self, waiting: Collection[Queued]) -> Iterator[None]:
        """Start a walk over those that wait; yields where others may run."""
        if self.keys.issuperset(map(key_of, waiting)):
            self.keys = frozenset()
        self._now, self._others, self._left, pace = set(), set(), MOST_REPEATED, Pace()
        self._rows, self._levels, self._lines = {}, defaultdict(_Line), defaultdict(_Line)
        for each in waiting if self.keys else ():
            if key_of(each) in self.keys:
                self._keep(each, self._refusals.epoch_of(key_of(each)))
            if pace.rests():
                yield

    @property
    def anybody(self) -> bool:
        """Whether this walk looked at anybody."""
        return bool(self._now)

    def note(self, queued: Queued, epoch: _Epoch, *, granted: bool) -> None:
        """Note that one was looked at, and the epoch when that began."""
        key = key_of(queued)
        self._now.add(key)
        if not granted:
            self._keep(queued, epoch)
        elif (row := self._rows.get(key)) is not None:
            row.queued = None

    def expect(self, queued: Queued) -> None:
        """Note that one has its turn now that waited behind another one, so that it comes before those behind it, too."""
        self._keep(queued, None)

    def before(self, queued: Queued) -> Queued | None:
        """Return one that is to be asked before this one, if something happened since it was refused that may let it in.

        It has a higher priority; or the same one, and came earlier: in the namespace, under the FIFO policy, or as the first of another namespace.
        """
        first = first_of(queued)
        if first is None:
            return None
        epoch, place, line = self._refusals.epoch, *self._place(first)
        higher = [self._levels[level] for level in sorted(self._levels) if level < place[0]]
        own = self._lines[line]
        while self._left:
            row = next(filter(None, (each.following(epoch) for each in higher)), None)
            if row is None and own.left and (row := own.following(epoch, place)) is not None:
                own.left -= 1
            if row is None and (row := self._of_another(place, first.claims[0].namespace, epoch)) is None:
                break
            if row.queued is not None and not self._is_left_out(row.queued):
                if epoch != self._reopened:
                    # Another one of its shape was refused before that happened, perhaps.
                    self._refusals.reopen()
                    self._reopened = epoch
                self._left -= 1
                return row.queued
        return None

    def end(self, *, early: bool, but: Iterable[str]) -> None:
        """End a walk; `early`: before the last of the queue. `but`: keys of those that former walks reached, and that are not done with."""
        self.keys = self.keys.difference(but) | self._now if early else frozenset()

    def _of_another(self, place: _Place, namespace: str, epoch: _Epoch) -> _Row | None:
        """Return the oldest of another namespace that waits since before this place, once for each."""
        if len(self._others) == MOST_BY_AGE:
            return None
        for row in self._levels[place[0]].rows:
            if row.place >= place:
                break
            if row.asked == epoch or row.queued is None or row.namespace in self._others:
                continue
            if row.namespace != namespace and not self._has_more(row.namespace, namespace):
                self._others.add(row.namespace)
                return row
        return None

    def _keep(self, queued: Queued, epoch: _Epoch | None) -> None:
        first = first_of(queued)
        if first is None:
            return
        place, line = self._place(first)
        row = self._rows.setdefault(key_of(queued), _Row(place, first.claims[0].namespace, queued, epoch))
        row.queued, row.asked = queued, epoch
        self._levels[place[0]].put(row)
        self._lines[line].put(row)

    def _place(self, first: WaitingDemand) -> tuple[_Place, tuple[int, str | int]]:
        """Return a demand's place in the queue, and among whom age decides."""
        managed, claim = self._snapshot.managed, first.claims[0]
        place, policy = place_of(first, managed), managed.policy(claim)
        fifo = policy.queue.order == QueueOrder.FIFO
        return place, (place[0], id(policy) if fifo else claim.namespace)
