"""Precedence: nothing is granted to one before others that come before it, and were refused before something changed, are asked once more (ADR 14).

In: those that a walk reached, the clock. Out: who is asked before one, for a bounded time in a walk.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from apportion.scheduling.demands.groups import Queued
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.walk.reached import Reached


class AskedTooSoon(Exception):  # noqa: N818 - it is no error
    """What was chosen for a demand may be that of others, which are to be asked before."""

    def __init__(self, others: Iterator[Queued]) -> None:
        super().__init__()
        self.others = others


class Precedence:
    """Says who is asked before one."""

    def __init__(self, reached: Reached, clock: Callable[[], float], *, longest: float) -> None:
        """`longest`: seconds of a walk for those that are asked once more and get nothing."""
        self._reached, self._clock, self._longest = reached, clock, longest
        self.spent = 0.0
        """Seconds for which some were asked once more in this walk, in vain."""

    def begin(self) -> None:
        """Start a walk."""
        self.spent = 0.0

    def before(self, queued: Queued) -> Iterator[Queued] | None:
        """Return those that are to be asked before this one, until one of them gets something; None: nobody is."""
        others = self._reached.before(queued) if self.spent < self._longest else iter(())
        first = next(others, None)
        return chain((first,), others) if first is not None else None

    def check(self, demand: WaitingDemand) -> None:
        """Raise AskedTooSoon if others are to be asked before this one."""
        if (others := self.before(demand)) is not None:
            raise AskedTooSoon(others)

    def timed(self, others: Iterator[Queued]) -> Iterator[Queued]:
        """Yield these as long as there is time for them: it counts from one to the next, so that one who got something takes none."""
        for other in others:
            began = self._clock()
            yield other
            self.spent += self._clock() - began
            if self.spent >= self._longest:
                return
