"""OverLimit: a demand that would exceed the limit of its quota. It waits until the use or the spec of this quota changes."""

from typing import Final

from apportion.quota.use import Excess
from apportion.scheduling.demands.waiting import WaitingDemand

EXCEEDS_LIMIT: Final = "ExceedsLimit"
"""Reason of Events and conditions."""


class OverLimit(Exception):  # noqa: N818 - it is an answer, not an error: the demand waits
    """The demand waits for its quota."""

    def __init__(self, excess: Excess | None, others: tuple[WaitingDemand, ...] = ()) -> None:
        """`excess` None: its namespace was not observed yet, or not all claims were read since the first quota came, so that nobody knows.

        `others`: the demands as they ask for what the limits leave them, of which too little is free.
        """
        super().__init__(str(excess) if excess is not None else "namespace or claims not observed yet")
        self.excess = excess
        self.others = others
