"""Cohort: those that wait of the namespaces whose quotas share what is beyond their guarantees, in one pass.

In: demands and groups. Out: one after another: first what stays within the guarantee of its quota, then by priority, then the quota with
the smaller weighted dominant share; as turns go on, as if what had its turn before were granted. Within a quota namespaces take
turns, each with its oldest first. Demands that ask for different resources do not stand behind each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from apportion.quota.use import QuotaUse, Total
from apportion.scheduling.demands.groups import Queued, demands_of
from apportion.scheduling.quota.charging import Charging

Place: TypeAlias = tuple[str, str, int]
"""Of one that waits, by age; no other has it."""
_Row: TypeAlias = tuple[int, Place, Queued, Sequence[int]]
"""Its priority, negative; its place; itself; what it takes of each resource of its quota, as far as is known."""
_Due: TypeAlias = tuple[bool, int, float, int, Place]
"""When the first of a line is due, compared with those of other lines."""


@dataclass(slots=True, eq=False)
class _Ahead:
    """What had its turn of one quota, and is neither granted nor refused yet."""

    use: QuotaUse
    amounts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.amounts = [0] * len(self.use.resources)

    def add(self, asked: Sequence[int], sign: int) -> None:
        self.amounts = [amount + sign * more for amount, more in zip(self.amounts, asked, strict=True)]


@dataclass(slots=True, eq=False)
class _Line:
    """Those of one quota that ask for the same resources."""

    ahead: _Ahead
    rows: dict[str, list[_Row]] = field(default_factory=dict)
    """A heap for each namespace."""
    taken: dict[str, int] = field(default_factory=dict)
    """Turns that each namespace has had."""
    order: list[tuple[int, int, Place, str]] = field(default_factory=list)
    """Heap of namespaces by their first: its priority, negative, the turns taken, its place."""
    due: _Due | None = None
    """When its first is due; None: nobody is in it, or that is not known."""
    version: int = -1
    """Of the use of its quota by which that was found out."""

    def put(self, namespace: str, row: _Row) -> None:
        heap = self.rows.setdefault(namespace, [])
        heappush(heap, row)
        if heap[0] is row:
            heappush(self.order, (row[0], self.taken.get(namespace, 0), row[1], namespace))

    def first(self) -> _Row | None:
        while self.order:
            priority, _, place, namespace = self.order[0]
            heap = self.rows.get(namespace)
            if heap and heap[0][:2] == (priority, place):
                return heap[0]
            heappop(self.order)  # an older one came since
        return None

    def pop(self) -> _Row:
        _, _, _, namespace = heappop(self.order)
        row = heappop(self.rows[namespace])
        self.taken[namespace] = self.taken.get(namespace, 0) + 1
        if self.rows[namespace]:
            following = self.rows[namespace][0]
            heappush(self.order, (following[0], self.taken[namespace], following[1], namespace))
        return row

    def look(self, total: Total) -> _Due | None:
        """Find out when its first is due."""
        row, use, amounts = self.first(), self.ahead.use, self.ahead.amounts
        self.due, self.version = None, use.version
        if row is not None:
            priority, place, _, asked = row
            borrows = not use.within_guarantee(asked, amounts)
            self.due = borrows, priority, use.share(total, amounts), self.order[0][1], place
        return self.due


class Cohort:
    """Those that wait of one cohort."""

    def __init__(self, charging: Charging, *, total: Total, shares: bool) -> None:
        """`total`: of the cluster; `shares`: some devices give shares."""
        self._charging = charging
        self._total = total
        self._shares = shares
        self._ahead: dict[QuotaUse, _Ahead] = {}
        """By the use of a quota; a quota whose spec changes within a pass has another one since."""
        self._lines_of: dict[QuotaUse, list[_Line]] = {}
        """The same. A line knows what is ahead and not the other way round: what refers to each other stays in memory until the garbage collector looks."""
        self._lines: dict[tuple[QuotaUse, tuple[bool, ...]], _Line] = {}
        """By the use of a quota, and by which of its resources are asked for."""
        self._due: list[tuple[_Due, int, _Line]] = []
        """Heap of lines by their first; with some that are true no more."""
        self._changed: dict[_Line, None] = {}
        """Lines of which the first, or when it is due, may be another since."""
        self._version = charging.usage.version
        self._pushed = 0
        self._popped: dict[int, tuple[Queued, _Ahead, Sequence[int]]] = {}
        """Those that had their turn and are not settled, by identity."""

    def put(self, namespace: str, priority: int, place: Place, queued: Queued) -> None:
        """Add one of a namespace; one that had its turn, and has another one, is ahead no longer."""
        self.settle(queued)
        use = self._charging.usage.of(namespace)
        if use is None:
            raise TypeError(f"namespace {namespace} has no quota")
        if use not in self._ahead:
            self._ahead[use] = _Ahead(use)
        claims = [claim for demand in demands_of(queued) for claim in demand.claims]
        asked = self._charging.dearest(claims, use, shares=self._shares)
        kind = use, tuple(map(bool, asked))
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line(self._ahead[use])
            self._lines_of.setdefault(use, []).append(line)
        line.put(namespace, (-priority, place, queued, asked))
        self._changed[line] = None

    def pop(self) -> Queued:
        """Return the next one; raises IndexError if there is none."""
        line = self._first()
        _, _, queued, asked = line.pop()
        self._add(line.ahead, asked, 1)
        self._popped[id(queued)] = queued, line.ahead, asked
        return queued

    def _first(self) -> _Line:
        """Return the line whose turn it is; only lines that changed are compared anew."""
        self._charging.follow()  # what had its turn before may have got its devices
        if self._version != self._charging.usage.version:
            self._version = self._charging.usage.version
            lines = self._lines.values()
            self._changed.update((each, None) for each in lines if each.version != each.ahead.use.version)
        for line in self._changed:
            due = line.look(self._total)
            if due is not None:
                self._pushed += 1
                heappush(self._due, (due, self._pushed, line))
        self._changed.clear()
        while self._due:
            due, _, line = self._due[0]
            if line.due is due:
                return line
            heappop(self._due)
        raise IndexError("nobody waits")

    def _add(self, ahead: _Ahead, asked: Sequence[int], sign: int) -> None:
        ahead.add(asked, sign)
        self._changed.update(dict.fromkeys(self._lines_of[ahead.use]))

    def settle(self, queued: Queued) -> None:
        """Note that one was decided: what it got counts as used, and if it was refused it takes nothing."""
        found = self._popped.pop(id(queued), None)
        if found is not None:
            _, ahead, asked = found
            self._add(ahead, asked, -1)


class Cohorts:
    """The cohorts of one pass."""

    def __init__(self, charging: Charging, total: Total, *, shares: bool) -> None:
        self._charging = charging
        self._total = total
        self._shares = shares
        self._found: dict[tuple[str, bool], Cohort] = {}

    def of(self, namespace: str, *, later: bool) -> Cohort | None:
        """Return the cohort of a namespace; None: it has none. `later`: those that come after all others are by themselves."""
        use = self._charging.usage.of(namespace)
        if use is None or use.quota.spec.cohort is None:
            return None
        key = use.quota.spec.cohort, later
        if key not in self._found:
            self._found[key] = Cohort(self._charging, total=self._total, shares=self._shares)
        return self._found[key]
