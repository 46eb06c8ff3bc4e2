"""Turns: the order in which those that wait are decided (ADR 0014).

In: demands and groups. Out: one after another, higher priority first; among those of equal priority namespaces take turns,
one demand or group each, in the order in which their oldest came. Demands whose policy says `queue.order: FIFO` share the
places that they get by this, the oldest first. Those of a cohort of quotas share theirs, too (`quota.cohort`). Of demands that were refused for one shape the first is decided; the next
one has its turn only if the one before it was not refused for that shape.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from apportion.api.policy import QueueOrder
from apportion.cluster.managedclasses import ManagedClasses
from apportion.scheduling.demands.groups import Queued, first_of, key_of
from apportion.scheduling.demands.waiting import WaitingDemand, place_of, priority_of
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.cohort import Cohort, Cohorts

_Entry: TypeAlias = tuple[tuple[str, str, int], Queued, list["_Entry"] | Cohort | None]
"""Its place in the queue by age, which no other entry has; and those who share the place: its cohort, or, under a FIFO policy, all
entries of that policy (a heap)."""


@dataclass(slots=True)
class _Level:
    """Those of one priority."""

    namespaces: dict[str, list[_Entry]] = field(default_factory=dict)
    """A heap for each."""
    turn: list[_Entry] = field(default_factory=list)
    """One entry of each namespace, the oldest at the end."""

    def pop(self) -> _Entry:
        """Return the next one."""
        if not self.turn:
            self.turn = sorted(
                map(heappop, self.namespaces.values()), key=lambda entry: entry[0], reverse=True
            )
            self.namespaces = {name: entries for name, entries in self.namespaces.items() if entries}
        return self.turn.pop()


@dataclass(slots=True)
class _Alike:
    """Demands that were refused for one shape, in their order."""

    demands: Sequence[WaitingDemand]
    turn: int = 0
    """The position of the one whose turn it is."""

    @property
    def behind(self) -> int:
        """Return how many come behind it."""
        return len(self.demands) - self.turn - 1


class Turns:
    """The queue of one pass."""

    def __init__(self, managed: ManagedClasses, cohorts: Cohorts | None = None) -> None:
        self._managed = managed
        self._cohorts = cohorts
        self._levels: dict[tuple[bool, bool, int], _Level] = {}
        self._fifo: dict[tuple[bool, int], list[_Entry]] = {}
        """By policy (its `id`)."""
        self._alike: dict[str, _Alike] = {}
        """By key of the demand whose turn it is."""
        self._popped: dict[int, Cohort] = {}
        """Cohorts, by identity of those of them that had their turn."""
        self._added = 0
        self._left = 0
        """How many are to come, those behind others included."""
        self._groups = Counter[str]()
        """Those of them that are not demands, by key."""
        self._last: deque[WaitingDemand] | None = None
        self._is_drained = False
        """Whether `last` has returned what was left."""
        self._later: frozenset[str] = frozenset()
        """The keys of those that come after all others."""
        self._held: list[Queued] = []

    def __len__(self) -> int:
        """Return how many may still come."""
        return self._left + len(self._held)

    def hold(self, queued: Queued) -> None:
        """Let one that was taken out wait until `resume`."""
        self._held.append(queued)

    def resume(self) -> None:
        """Let those that were held come after all others."""
        for queued in self._held:
            self.add(queued, later=True)
        self._held.clear()

    def add(self, queued: Queued, *, later: bool = False) -> None:
        """Add one; those added as `later` come after all others. Groups without a waiting demand are the last."""
        self._put(queued, later=later)
        self._left += 1
        if not isinstance(queued, WaitingDemand):
            self._groups[key_of(queued)] += 1

    def go_on(self, group: Queued) -> None:
        """Let a group come after all others, if it is not to come in any case: the decision about it has begun, for whose end others wait."""
        if key_of(group) not in self._groups:
            self.add(group, later=True)

    def add_alike(self, demands: Sequence[WaitingDemand], *, later: bool = False) -> None:
        """Add demands that were refused for one shape, in their order: the first has its turn, the others come behind it."""
        self._put(demands[0], later=later)
        self._alike[demands[0].key] = _Alike(demands)
        self._left += len(demands)

    def fill(
        self, queue: Sequence[Queued], alike: Sequence[Sequence[WaitingDemand]], later: frozenset[str]
    ) -> Iterator[None]:
        """Add all of these, those whose keys are `later` after all others; yields where others may run."""
        pace, self._later = Pace(), later
        for each in queue:
            self.add(each, later=key_of(each) in later)
            if pace.rests():
                yield
        for demands in alike:
            self.add_alike(demands, later=demands[0].key in later)
            if pace.rests():
                yield

    def pop(self) -> Queued:
        """Return the next one; raises IndexError if there is none."""
        self._left -= 1
        if self._last:
            return self._last.popleft()
        queued = self._pop()
        if not isinstance(queued, WaitingDemand):
            self._groups.subtract((key_of(queued),))
            if not self._groups[key_of(queued)]:
                del self._groups[key_of(queued)]
        return queued

    def settle(self, queued: Queued, *, refused: bool) -> WaitingDemand | None:
        """Let the demand behind this one come, and return it; or, if this one was `refused` for their shape, none of those behind it."""
        cohort = self._popped.pop(id(queued), None)
        if cohort is not None:
            cohort.settle(queued)
        alike = self._alike.pop(_key(queued), None)
        if alike is None or not alike.behind:
            return None
        if refused:
            self._left -= alike.behind
            return None
        alike.turn += 1
        following = alike.demands[alike.turn]
        self._alike[following.key] = alike
        if self._last is None:
            self._put(following, later=False)
            return following
        place = place_of(following, self._managed)
        before = (number for number, each in enumerate(self._last) if place_of(each, self._managed) > place)
        self._last.insert(next(before, len(self._last)), following)
        return following

    def last(
        self, most: int, is_refused: Callable[[WaitingDemand], Generator[None, None, bool]]
    ) -> Generator[None, None, list[WaitingDemand]]:
        """Return all that is left, once, if these are demands only and `most` at most. Yields where `is_refused` does.

        Those behind others come with them; not behind those of which `is_refused` says that their shape is refused: they come if `settle` lets them.
        """
        if self._is_drained or self._groups or not 0 < self._left <= most:
            return []
        refused: dict[str, _Alike] = {}
        for key, alike in self._alike.items():
            if alike.behind and (yield from is_refused(alike.demands[alike.turn])):
                refused[key] = alike
                continue
            for demand in alike.demands[alike.turn + 1 :]:
                self._put(demand, later=False)
        self._alike = refused
        drained = [self._pop() for _ in range(self._left - sum(each.behind for each in refused.values()))]
        self._last = deque(demand for demand in drained if isinstance(demand, WaitingDemand))
        self._is_drained = True
        return [*self._last]

    def put_back(self, queued: Queued) -> bool:
        """Let one that was taken out, and not settled, wait for its turn in its cohort once more; says whether it has one."""
        cohort = self._popped.pop(id(queued), None)
        if cohort is None:
            return False
        cohort.settle(queued)
        self.add(queued, later=key_of(queued) in self._later)
        self.reorder()
        return True

    def reorder(self) -> None:
        """Let those that `last` returned come by what their cohorts share now: somebody got or lost something since."""
        last = self._last or ()
        if any(id(demand) in self._popped for demand in last):
            self._last = None
            for demand in last:
                self._left -= 1
                if not self.put_back(demand):
                    self.add(demand, later=demand.key in self._later)

    def _put(self, queued: Queued, *, later: bool) -> None:
        self._added += 1
        first = first_of(queued)
        sharing: list[_Entry] | Cohort | None = None
        if first is None:
            level, namespace, place = (later, True, 0), "", ("", "", self._added)
        else:
            claim = first.claims[0]
            level, namespace = (later, False, -priority_of(first, self._managed)), claim.namespace
            place, policy = (first.since, first.key, self._added), self._managed.policy(claim)
            if self._cohorts is not None:
                sharing = self._cohorts.of(namespace, later=later)
            if sharing is None and policy.queue.order == QueueOrder.FIFO:
                sharing = self._fifo.setdefault((later, id(policy)), [])
        entry: _Entry = place, queued, sharing
        if isinstance(sharing, Cohort):
            sharing.put(namespace, -level[2], place, queued)
        elif sharing is not None:
            heappush(sharing, entry)
        if level not in self._levels:
            self._levels[level] = _Level()
        heappush(self._levels[level].namespaces.setdefault(namespace, []), entry)

    def _pop(self) -> Queued:
        if not self._levels:
            raise IndexError("nobody waits")
        key = min(self._levels)
        level = self._levels[key]
        _, queued, sharing = level.pop()
        if not level.turn and not level.namespaces:
            del self._levels[key]
        if isinstance(sharing, Cohort):
            queued = sharing.pop()
            former = self._popped.get(id(queued))
            if former is not None and former is not sharing:
                former.settle(queued)
            self._popped[id(queued)] = sharing
            return queued
        return heappop(sharing)[1] if sharing is not None else queued


def _key(queued: Queued) -> str:
    return queued.key if isinstance(queued, WaitingDemand) else ""
