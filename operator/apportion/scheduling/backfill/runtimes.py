"""How long demands run at most, and when they will have ended."""

from collections.abc import Collection

from apportion.scheduling.backfill.reservation import STARTED
from apportion.scheduling.demands.waiting import WaitingDemand


def runtime_of(demand: WaitingDemand, exceeding: Collection[str]) -> float | None:
    """Return for how many seconds a demand's pods run at most; None: nobody knows.

    As long as a pod of a namespace runs longer than its annotation says (`exceeding`), no annotation there is believed.
    """
    if not demand.pods:
        return None
    ends = [pod.runtime.longest(believed=pod.namespace not in exceeding) for pod in demand.pods]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None


def ends_at(now: float, runtime: float) -> float:
    """Return when pods that get devices now will have ended: devices may be used that are reserved from then on."""
    return now + STARTED + runtime
