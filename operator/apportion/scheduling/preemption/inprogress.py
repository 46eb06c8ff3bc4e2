"""InProgress: what preemptions do for others while victims are searched for one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from apportion.scheduling.waiting import WaitingDemand


@dataclass(frozen=True, slots=True)
class InProgress:
    """What is being done for others."""

    ahead: Sequence[WaitingDemand] = ()
    """Demands that are about to get devices."""
    going: Collection[str] = ()
    """Pods (UIDs) that are being evicted for them."""
