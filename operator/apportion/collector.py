"""The garbage collector, told when to work: a full pass over a large cluster takes longer than a claim may wait.

In: calls at quiet moments. Out: nothing; memory of cycles is freed. Young objects are still looked at on the way, few at a
time, which takes some milliseconds at most.
"""

import gc
from dataclasses import dataclass

YOUNG = 4_000
"""Objects more than before after which the young ones are looked at: few, so that a pass is short, yet so many that less
than one claim in a hundred meets one."""

AGED = 250
"""Passes over the young after which those that survived one are looked at, if no quiet moment came before: a claim that
meets this pass waits half a second, so it is for an operator that never rests."""

NEVER = 1 << 30

EVERY = 60.0
"""Seconds between passes over what is new since the last one."""

WHOLE = 3600.0
"""Seconds between passes over everything."""


@dataclass(slots=True)
class Collector:
    """When the passes were. One per process."""

    _new: float = 0.0
    _whole: float = 0.0

    def take_over(self, now: float) -> None:
        """Look at everything once, take what was loaded out of sight, and leave full passes to `quiet`."""
        gc.set_threshold(YOUNG, AGED, NEVER)
        self._pass(now)

    def quiet(self, now: float) -> None:
        """Nothing waits at the moment: look at what is new, or at everything, if it is time."""
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
