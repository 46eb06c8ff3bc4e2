"""Reached: whom walks looked at since one got to the end of the queue, and who of them is asked once more (ADR 14).

In: those that wait, and those that were asked and got nothing. Out: who comes after all others in the next walk; and who is asked
before one of lower priority, because something changed since it was refused: what came free is no newcomer's.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.groups import Queued, first_of, key_of
from apportion.scheduling.pace import Pace
from apportion.scheduling.refusals import Refusals
from apportion.scheduling.waiting import place_of, priority_of

MOST_REPEATED: Final = 64
"""How often somebody is asked once more in a walk."""

_Epoch: TypeAlias = tuple[int, int, int]
_Row: TypeAlias = tuple[tuple[int, str, str], int, Queued, _Epoch | None]
"""A place in the queue, a number that no other row has, who has the place, and the epoch in which it was asked."""


class Reached:
    """Whom walks looked at."""

    def __init__(self, snapshot: Snapshot, refusals: Refusals, rests: Callable[[Queued], bool]) -> None:
        """`rests`: whether one is not to be decided now, whatever happened."""
        self._snapshot, self._refusals, self._rests = snapshot, refusals, rests
        self.keys: frozenset[str] = frozenset()
        """The keys of the demands and groups that former walks reached, if the latest one ended early."""
        self._now: set[str] = set()
        self._refused: list[_Row] = []
        """Those that got nothing and may be asked once more (a heap)."""
        self._unchanged: list[_Row] = []
        """Those of them for whom nothing had changed when they were looked at last."""
        self._epoch: _Epoch | None = None
        self._left = 0
        self._numbers = count()

    def begin(self, waiting: Collection[Queued]) -> Iterator[None]:
        """Start a walk over those that wait; yields where others may run."""
        if self.keys.issuperset(map(key_of, waiting)):
            self.keys = frozenset()
        self._now, self._left = set(), MOST_REPEATED
        self._refused, self._unchanged, pace = [], [], Pace()
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
        self._now.add(key_of(queued))
        if not granted and self._left:
            self._keep(queued, epoch)

    def before(self, queued: Queued) -> Queued | None:
        """Return one that is to be asked before this one: of higher priority, refused, and something happened since that may let it in."""
        first = first_of(queued)
        if first is None or not self._left:
            return None
        if self._epoch != (epoch := self._refusals.epoch):
            self._epoch, self._refused, self._unchanged = epoch, self._refused + self._unchanged, []
            heapify(self._refused)
        limit = -priority_of(first, self._snapshot.managed)
        while self._refused and self._refused[0][0][0] < limit:
            row = heappop(self._refused)
            _, _, other, asked = row
            if asked == epoch:
                self._unchanged.append(row)
            elif not self._rests(other):
                self._refusals.lapse(key_of(other))
                self._left -= 1
                return other
        return None

    def end(self, *, early: bool, but: Iterable[str]) -> None:
        """End a walk; `early`: before the last of the queue. `but`: keys of those that former walks reached, and that are not done with."""
        self.keys = self.keys.difference(but) | self._now if early else frozenset()

    def _keep(self, queued: Queued, epoch: _Epoch | None) -> None:
        first = first_of(queued)
        if first is not None:
            place = place_of(first, self._snapshot.managed)
            heappush(self._refused, (place, next(self._numbers), queued, epoch))
