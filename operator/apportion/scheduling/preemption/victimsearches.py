"""VictimSearches: for which of those that wait victims are searched now, a few each second, and for how long in one pass.

In: those that waited in a pass, what is under way. Out: chosen victims, or that one of those that wait rests for a while. A pass searches for a part of
its longest time, and the next one goes on where it stopped, so that others wait for no search.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import structlog

from apportion.allocator.preemption.findvictims import MOST_NODES
from apportion.scheduling.candidates.searchturns import SHARE
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.preemption import events
from apportion.scheduling.preemption.chosen import Chosen
from apportion.scheduling.preemption.holders import ClaimsByNode
from apportion.scheduling.preemption.inprogress import InProgress
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.preemption.preemptors import Preemptors
from apportion.scheduling.preemption.promisedpods import PromisedPods
from apportion.scheduling.preemption.victimsearch import VictimSearch
from apportion.scheduling.preemption.windows import Window, Windows

_log = structlog.get_logger()
_PAUSE = 1.0
"""Seconds between the beginnings of two turns."""
_LONGEST = 0.2
"""Seconds after which a turn begins no further search."""
_LONGEST_REPEATED = 0.05
"""Seconds of searches for those that found nobody before, after which a turn begins no further one of these."""


class VictimSearches:
    """Searches one after the other."""

    def __init__(
        self,
        decider: Decider,
        search: VictimSearch,
        preemptors: Preemptors,
        *,
        clock: Callable[[], float],
        in_progress: Callable[[], InProgress],
        is_evaluated: Callable[[WaitingDemand], bool],
        start: Callable[[Preemptor, Chosen], None],
    ) -> None:
        """`in_progress` says what is being done for others; `is_evaluated`, whether costly selectors have been evaluated; `start` begins a preemption."""
        self._decider = decider
        self._search = search
        self._preemptors = preemptors
        self._clock = clock
        self._in_progress = in_progress
        self._is_evaluated = is_evaluated
        self._promised = PromisedPods(decider.candidates, in_progress)
        self._start_one = start
        self._windows = Windows()
        self._began = -_PAUSE
        self._steps: Iterator[None] | None = None
        """What goes on in the next pass."""
        self._ahead: deque[Iterator[None]] = deque()
        """What is done before a turn begins."""
        self._spent = 0.0
        """Seconds that the present turn had taken when it went on last."""
        self._resumed = 0.0
        """When that was."""

    @property
    def go_on(self) -> bool:
        """Whether the next pass goes on with a search."""
        return self._steps is not None or bool(self._ahead)

    @property
    def _taken(self) -> float:
        """Seconds that the present turn has taken, without others that ran meanwhile."""
        return self._spent + self._clock() - self._resumed

    def abandon(self) -> None:
        """Search no more."""
        self._steps = None
        self._ahead.clear()

    def do_first(self, steps: Iterator[None]) -> None:
        """Do these steps, of a search that `instead` makes, before another turn begins."""
        self._ahead.append(steps)

    def turn(
        self,
        demands: Iterable[WaitingDemand],
        groups: Collection[WaitingGroup],
        active: Collection[Preemptor],
        longest: float,
    ) -> Iterator[None]:
        """Search for the first of these for which anything can be done, or go on with what was begun; yields where others may run.

        `active`: those for which a preemption is under way. `longest`: seconds of a pass.
        """
        now = self._clock()
        if self._steps is None and self._ahead:
            self._spent, self._steps = 0.0, self._ahead.popleft()
        if self._steps is None and now - self._began >= _PAUSE and self._preemptors.exist():
            self._began, self._spent = now, 0.0
            self._steps = self._for_first(demands, groups, active)
        self._resumed = now
        with self._promised.counted():
            for _ in self._steps or ():
                ended = self._clock()
                self._spent += ended - self._resumed
                if ended >= now + longest * SHARE:
                    return
                yield
                self._resumed = self._clock()
        self._steps = None

    def instead(
        self, preemptor: Preemptor, lifted: Callable[[], AbstractContextManager[None]], *, searches: bool
    ) -> Generator[None, None, Chosen | None]:
        """Return other victims for one some of whose victims stay; None: there are none. `lifted`: within it nothing is kept for it. `searches`: else it was searched for often enough, and it rests."""
        if not searches:
            self._preemptors.found_none(preemptor, self._preemptors.begun(), 0.0, evicts=True)
            return None
        found = yield from self._search.claims()
        chosen = yield from self._one(preemptor, found, None, evicts=True, lifted=lifted)
        return chosen if isinstance(chosen, Chosen) else None

    def claims(self) -> Generator[None, None, ClaimsByNode]:
        """Return the claims whose devices could be taken back; yields where others may run."""
        return self._search.claims()

    def of_ending(self, due: Iterable[Preemptor], found: ClaimsByNode) -> Generator[None, None, None]:
        """Search on all nodes for what ends already, for each of these in turn; nobody is evicted. One that finds none speaks for all of its shape."""
        none, pace = set[object](), Pace()
        with self._promised.counted():
            for preemptor in due:
                if pace.rests():
                    yield
                alike = self._preemptors.alike(preemptor)
                if alike in none or not self._may_search(preemptor):
                    continue
                chosen: Chosen | Counter[str] | None = None
                for _ in range(0, len(found.ending), MOST_NODES):
                    chosen = yield from self._one(preemptor, found, None, evicts=False)
                    if chosen is not None:
                        break  # else the next search goes on behind the nodes of this one
                if isinstance(chosen, Chosen):
                    self._start(preemptor, chosen)
                elif alike is not None:
                    none.add(alike)

    def _start(self, preemptor: Preemptor, chosen: Chosen) -> None:
        """Begin a preemption; those after it see what is promised to it."""
        self._start_one(preemptor, chosen)
        self._promised.follow()

    def _may_search(self, preemptor: Preemptor) -> bool:
        """Say whether victims are searched for one: it does not wait for its quota, others do not go before it, and it is known which devices would do."""
        if self._decider.quotas.stands_back(preemptor.members, evicts=True):
            return False
        return all(self._is_evaluated(member) for member in preemptor.members)

    def _for_first(
        self,
        demands: Iterable[WaitingDemand],
        groups: Collection[WaitingGroup],
        active: Collection[Preemptor],
    ) -> Generator[None, None, None]:
        """Search for the first of these, one after the other as long as the turn lasts, and for the first that repeat a search."""
        due, repeated = yield from self._preemptors.first(demands, groups, active)
        if not due and not repeated:
            return
        found = yield from self._search.claims()
        if not found.claims:
            return
        repeating = 0.0
        for preemptor in due:
            was_tried, began = self._preemptors.was_tried(preemptor), self._taken
            if not was_tried or repeating < _LONGEST_REPEATED:
                yield from self._for_one(preemptor, found)
            if was_tried:
                repeating += self._taken - began
            if self._taken >= _LONGEST:
                break
        # Who repeats a search before its time, on a few nodes, takes nobody's turn.
        for preemptor in repeated:
            if (yield from self._for_one(preemptor, found)):
                break

    def _for_one(self, preemptor: Preemptor, found: ClaimsByNode) -> Generator[None, None, bool]:
        """Search for one, unless others of its shape have just found none; says whether it was done."""
        only, evicts = self._preemptors.only(preemptor), self._preemptors.may_evict(preemptor)
        if only == frozenset() or not (evicts or found.ending) or not self._may_search(preemptor):
            return False
        chosen = yield from self._one(preemptor, found, only, evicts=evicts)
        if isinstance(chosen, Chosen):
            self._start(preemptor, chosen)
        elif chosen is not None and only is None:
            events.not_taken_back(self._decider.recorder, preemptor.demand, chosen)
        return True

    def _one(
        self,
        preemptor: Preemptor,
        found: ClaimsByNode,
        only: frozenset[str] | None,
        *,
        evicts: bool,
        lifted: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Generator[None, None, Chosen | Counter[str] | None]:
        """Search for one, as `VictimSearch.search` does; where there are no victims on any node it rests."""
        begun, seconds = self._preemptors.begun(), 0.0
        window = Window(self._windows, self._preemptors.topic(preemptor) if only is None else None)
        steps = self._search.search(preemptor, found, only, self._in_progress, window, evicts=evicts)
        chosen: Chosen | Counter[str] | None = None
        searching = True
        while searching:
            began = self._clock()
            try:
                with lifted():
                    next(steps)
            except StopIteration as end:
                chosen, searching = end.value, False
            except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
                _log.exception("preemption.defect", claim=preemptor.demand.claims[0].key)
                chosen, searching, window.are_left = Counter(), False, False
            seconds += self._clock() - began
            if searching:
                yield
        if chosen is None or isinstance(chosen, Chosen):
            return chosen
        if window.are_left and not self._preemptors.was_tried(preemptor):
            return None  # its next turn, a second later, goes on behind these nodes
        self._preemptors.found_none(preemptor, begun, seconds, evicts=evicts)
        return chosen
