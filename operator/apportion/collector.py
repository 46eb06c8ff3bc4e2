"""When Python's garbage collector runs: a full pass over a large cluster's objects takes longer than a claim may wait.

In: calls while no claim waits, and while claims do. Out: nothing; memory of reference cycles is freed. Passes over few young objects still run at
any time; they take some milliseconds at most.
"""

import gc
from dataclasses import dataclass

YOUNG = 4_000
"""New objects after which the young generation is collected: few enough for a short pass, and so many that less than one
claim in a hundred meets one."""

AGED = 250
"""Young collections after which the middle generation is collected too, if nobody has done it before (`FEW`): a claim that meets this pass
may wait half a second."""

NEVER = 1 << 30

EVERY = 60.0
"""Seconds between passes over the objects that are new since the last one."""

WHOLE = 3600.0
"""Seconds between passes over everything."""

FEW = 12
"""Young collections after which a busy operator collects the middle generation: with 25 it took 48 to 83 ms while 4,000 pods waited on two busy cores."""

LATEST, WHOLE_LATEST = 600.0, 24 * WHOLE
"""Seconds after which a busy operator collects the objects that are new, and all, all the same: garbage that outlived the young generations would fill the memory else."""


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
            self._collect_new(now)

    def busy(self, now: float) -> None:
        """Collect few objects, now and then those that are new; called about once a second while claims wait."""
        if now - self._whole >= WHOLE_LATEST:
            self._pass(now)
        elif now - self._new >= LATEST:
            self._collect_new(now)
        elif gc.get_count()[1] >= FEW:
            gc.collect(1)

    def _collect_new(self, now: float) -> None:
        gc.collect()
        gc.freeze()
        self._new = now

    def _pass(self, now: float) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._new = self._whole = now
