"""TakeOver: once in a term, what ends already is kept for those whom it would serve: a leader before may have had it evicted for them, and kept it.

In: all that wait, before anybody is decided: others would get what is free of it by now, and be evicted a moment later. Out: preemptions that evict nobody. Those that wait are looked at in their order.
Where costly selectors of one are still to be evaluated, nobody gets anything on the nodes where something ends, and the next pass goes on with it; for LONGEST at most.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Final

from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.groups import Queued, WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.preemption.preemptors import Preemptors
from apportion.scheduling.preemption.victimsearches import VictimSearches
from apportion.scheduling.room.keptroom import Kept

LONGEST: Final = 15.0
"""Seconds after which it ends, also for those that were not looked at by then."""
_KEY: Final = "preempt:takeover"
_ALL: Final = Kept({"pods": 1 << 30})
"""No node has so many slots for pods: nobody gets anything there."""


class TakeOver:
    """That of one term."""

    def __init__(
        self,
        decider: Decider,
        searches: VictimSearches,
        preemptors: Preemptors,
        *,
        clock: Callable[[], float],
        is_awaited: Callable[[WaitingDemand], bool],
    ) -> None:
        """`is_awaited` says whether costly selectors of a demand are still to be evaluated."""
        self._decider = decider
        self._searches = searches
        self._preemptors = preemptors
        self._clock = clock
        self._is_awaited = is_awaited
        self.is_done = False
        self._began: float | None = None
        self._looked_at: set[str] = set()
        """Those for whom it was searched, by key."""
        self._awaits = False
        """Whether it stopped at one whose selectors are to be evaluated."""

    def end(self) -> None:
        """End the term: the next one begins anew."""
        self._release()
        self.is_done, self._began = False, None
        self._looked_at.clear()

    def steps(
        self, waiting: Collection[Queued], active: Collection[Preemptor]
    ) -> Generator[None, None, None]:
        """Look at those that wait; yields where others may run. `active`: those for which a preemption is under way."""
        if self.is_done:
            return
        self._release()
        if self._began is None:
            self._began = self._clock()
        self._awaits = False
        if self._preemptors.exist():
            demands = [each for each in waiting if isinstance(each, WaitingDemand)]
            groups = [each for each in waiting if isinstance(each, WaitingGroup)]
            found = yield from self._searches.claims()
            if found.ending:
                due = yield from self._preemptors.all(demands, groups, active)
                # Searches of another kind, by which nobody has found none before, or has now.
                self._preemptors.forget()
                yield from self._searches.of_ending(self._in_turn(due, self._began + LONGEST), found)
                self._preemptors.forget()
            if self._awaits:
                self._decider.candidates.capacity().keep(_KEY, dict.fromkeys(found.ending, _ALL))
        self.is_done = not self._awaits

    def _in_turn(self, due: Iterable[Preemptor], ends: float) -> Iterator[Preemptor]:
        """Yield those that are to be looked at now: up to the first whose selectors are to be evaluated."""
        for each in due:
            if self._clock() >= ends:
                return
            if each.key not in self._looked_at:
                self._awaits = any(map(self._is_awaited, each.members))
                if self._awaits:
                    return
                self._looked_at.add(each.key)
                yield each

    def _release(self) -> None:
        """Let others have what is on the nodes where something ended."""
        if self._awaits:
            self._decider.candidates.capacity().keep(_KEY, {})
            self._decider.snapshot.retry_epoch += 1
