"""Reached: whom walks looked at since one got to the end of the queue, and who of them is asked once more (ADR 14).

In: those that wait, and those that were asked and got nothing. Out: who comes after all others in the next walk; and who is asked
before one that comes behind it by priority or age, or by what their cohort shares, because something changed since it was refused: what came free is no newcomer's.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final, TypeAlias

from apportion.api.policy import QueueOrder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.deciding.refusals import Refusals
from apportion.scheduling.demands.groups import Queued, first_of, key_of
from apportion.scheduling.demands.waiting import WaitingDemand, place_of
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.dues import Due

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

    def stale(self, epoch: _Epoch, is_left_out: Callable[[Queued], bool]) -> Iterator[_Row]:
        """Yield those that were asked in another epoch than this and are not left out, in their order."""
        if self.epoch != epoch:
            self.epoch, self.looked_at = epoch, 0
        for position in range(self.looked_at, len(self.rows)):
            row = self.rows[position]
            if row.asked != epoch and row.queued is not None and not is_left_out(row.queued):
                yield row
            elif position == self.looked_at and self.epoch == epoch:
                self.looked_at += 1


class Reached:
    """Whom walks looked at."""

    def __init__(
        self,
        snapshot: Snapshot,
        refusals: Refusals,
        is_left_out: Callable[[Queued], bool],
        due: Callable[[Queued], Due | None],
    ) -> None:
        """`is_left_out`: whether one is not to be asked, whatever happened; `due`: the cohort of one and when it is due there, None: it has none."""
        self._snapshot, self._refusals = snapshot, refusals
        self._is_left_out, self._due = is_left_out, due
        self.keys: frozenset[str] = frozenset()
        """The keys of the demands and groups that former walks reached, if the latest one ended early."""
        self._now: set[str] = set()
        self._rows: dict[str, _Row] = {}
        self._levels: dict[int, _Line] = {}
        """Those of one priority, by place in the queue: the highest priority has the lowest."""
        self._lines: dict[int, dict[str | int, _Line]] = {}
        """The same, by namespace, or FIFO policy (its `id`)."""
        self._parts: dict[int, dict[tuple[str | int, str], _Line]] = {}
        """The same, by that and by namespace."""
        self._asked = Counter[_Epoch | None]()
        """How many of the rows that got nothing were asked in each epoch."""
        self._left = 0
        self._reopened: _Epoch | None = None
        """The latest epoch in which refusals of shapes were doubted."""
        self._others = Counter[str]()
        """How often one of a namespace was asked before one of another namespace."""

    def begin(self, waiting: Collection[Queued]) -> Iterator[None]:
        """Start a walk over those that wait; yields where others may run."""
        if self.keys.issuperset(map(key_of, waiting)):
            self.keys = frozenset()
        self._now, self._others, self._left, pace = set(), Counter(), MOST_REPEATED, Pace()
        self._rows, self._levels, self._asked = {}, defaultdict(_Line), Counter()
        self._lines, self._parts = defaultdict(lambda: defaultdict(_Line)), defaultdict(dict)
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
        elif (row := self._rows.get(key)) is not None and row.queued is not None:
            row.queued = None
            self._asked[row.asked] -= 1

    def put_back(self, queued: Queued) -> None:
        """Note that one was looked at, and has its turn once more."""
        self._now.add(key_of(queued))
        self.expect(queued)

    def expect(self, queued: Queued) -> None:
        """Note that one has its turn now that waited behind another one, so that it comes before those behind it, too."""
        self._keep(queued, None)

    def before(self, queued: Queued) -> Iterator[Queued]:
        """Yield those that are to be asked before this one, as long as nothing is granted, if something happened since they were refused that may let them in.

        They have a higher priority; or the same one, and came earlier: in the namespace, under the FIFO policy, or as the first of another namespace.
        Of those of one cohort it is who is due there: who has less of what they share, or is within the guarantee.
        """
        first = first_of(queued)
        if first is None or self._asked[self._refusals.epoch] == self._asked.total():
            return
        for row in self._before(*self._place(first), first.claims[0].namespace, self._due(queued)):
            epoch = self._refusals.epoch
            if row.queued is None or row.asked == epoch:
                continue  # since others were asked
            if not self._left:
                return
            if epoch != self._reopened:
                # Another one of its shape was refused before that happened, perhaps.
                self._refusals.reopen()
                self._reopened = epoch
            self._left -= 1
            yield row.queued

    def _before(self, place: _Place, line: str | int, namespace: str, due: Due | None) -> Iterator[_Row]:
        for level in sorted(each for each in self._levels if each < place[0]):
            for row in islice(self._stale(self._levels[level]), MOST_REPEATED):
                if self._goes_first(row, self._due_with(row, due), place, due):
                    yield row
        own = self._lines[place[0]][line]
        for row in takewhile(lambda each: each.place < place and own.left, self._stale(own)):
            own.left -= 1
            yield row
        # Of a lower priority goes only who is within the guarantee before one who borrows.
        borrows = due is not None and due[1]
        levels = [each for each in self._parts if each == place[0] or (borrows and each > place[0])]
        rows = [(level, *row) for level in levels for row in self._parts[level].items()]
        others = [each for level, (of, _), each in rows if (level, of) != (place[0], line)]
        while found := [*filter(None, (self._of_another(each, place, namespace, due) for each in others))]:
            for row in sorted(found, key=lambda each: each.place):
                if row.namespace in self._others or len(self._others) < MOST_BY_AGE:
                    self._others[row.namespace] += 1
                    yield row

    def _of_another(self, line: _Line, place: _Place, namespace: str, due: Due | None) -> _Row | None:
        """Return the first of a line, all of one namespace, if that is another one, and it goes first: once for each namespace, more often if they are of one cohort."""
        row = next(self._stale(line), None)
        if row is None or row.namespace == namespace:
            return None
        other, had = self._due_with(row, due), self._others.get(row.namespace, 0)
        has_another = had < MOST_BY_AGE and other is not None if had else len(self._others) < MOST_BY_AGE
        return row if has_another and self._goes_first(row, other, place, due) else None

    def _stale(self, line: _Line) -> Iterator[_Row]:
        return line.stale(self._refusals.epoch, self._is_left_out)

    def _due_with(self, row: _Row, due: Due | None) -> Due | None:
        """Return when one is due in the cohort of another one; None: they have none in common."""
        other = self._due(row.queued) if due is not None and row.queued is not None else None
        return other if other is not None and due is not None and other[0] == due[0] else None

    def _goes_first(self, row: _Row, other: Due | None, place: _Place, due: Due | None) -> bool:
        """Say whether one comes before a place: in a cohort by what that says, else by priority and age."""
        if other is None or due is None:
            return row.place < place
        return (other[1], row.place[0], other[2], row.place) < (due[1], place[0], due[2], place)

    def end(self, *, early: bool, but: Iterable[str]) -> None:
        """End a walk; `early`: before the last of the queue. `but`: keys of those that former walks reached, and that are not done with."""
        self.keys = self.keys.difference(but) | self._now if early else frozenset()

    def _keep(self, queued: Queued, epoch: _Epoch | None) -> None:
        first = first_of(queued)
        if first is None:
            return
        place, line = self._place(first)
        row = self._rows.setdefault(key_of(queued), _Row(place, first.claims[0].namespace, None, epoch))
        if row.queued is not None:
            self._asked[row.asked] -= 1
        row.queued, row.asked = queued, epoch
        self._asked[epoch] += 1
        self._levels[place[0]].put(row)
        own = self._lines[place[0]][line]
        part = self._parts[place[0]].setdefault(
            (line, row.namespace), own if isinstance(line, str) else _Line()
        )
        own.put(row)
        if part is not own:
            part.put(row)

    def _place(self, first: WaitingDemand) -> tuple[_Place, str | int]:
        """Return a demand's place in the queue, and among whom age decides."""
        managed, claim = self._snapshot.managed, first.claims[0]
        policy = managed.policy(claim)
        fifo = policy.queue.order == QueueOrder.FIFO and self._due(first) is None
        return place_of(first, managed), id(policy) if fifo else claim.namespace
