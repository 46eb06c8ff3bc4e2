"""When Python's garbage collector runs: a full pass over a large cluster's objects takes longer than a claim may wait.

In: calls while no claim waits. Out: nothing; memory of reference cycles is freed. Passes over few young objects still run at
any time; they take some milliseconds at most.
"""

import gc
from dataclasses import dataclass

YOUNG = 4_000
"""New objects after which the young generation is collected: few enough for a short pass, and so many that less than one
claim in a hundred meets one."""

AGED = 250
"""Young collections after which the middle generation is collected too. A claim that meets this pass waits half a second, so
it happens only in an operator that is never idle."""

NEVER = 1 << 30

EVERY = 60.0
"""Seconds between passes over the objects that are new since the last one."""

WHOLE = 3600.0
"""Seconds between passes over everything."""


@dataclass(slots=True)
class Collector:
    """The times of the last passes, in seconds. One per process."""

    _new: float = 0.0
    _whole: float = 0.0
    _former: tuple[int, int, int] | None = None
    """The thresholds that `end` brings back."""

    def load(self) -> None:
        """Leave full passes out from now on: nearly all of what is loaded stays, and each pass would look at all of it."""
        self._former = self._former or gc.get_threshold()
        gc.set_threshold(YOUNG, AGED, NEVER)

    def end(self) -> None:
        """Let Python collect by itself again."""
        if self._former is not None:
            gc.set_threshold(*self._former)
            gc.unfreeze()

    def take_over(self, now: float) -> None:
        """Collect once, freeze what was loaded, and leave full passes to `quiet`."""
        self.load()
        self._pass(now)

    def quiet(self, now: float) -> None:
        """Collect new or all objects if it is time; called while no claim waits."""
        if now - self._whole >= WHOLE:
            self._pass(now)
        elif now - self._new >= EVERY:
            gc.collect()
            gc.freeze()
            self._new = now

    def _pass(self, now: float) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._new = self._whole = now
