"""note(): what a quota says about a demand that finds no devices, for its Event.

In: the use of its quota, what it asks for, the other quotas. Out: the end of a sentence: whether the devices are guaranteed to it, and whether
what others have borrowed is taken back for it, or why not.
"""

from collections.abc import Iterable

from apportion.quota.reclaim import reclaimable
from apportion.quota.use import Amounts, QuotaUse


def note(use: QuotaUse, asked: Amounts, others: Iterable[QuotaUse], *, evicts: bool) -> str:
    """Return what the quota says, from "; " on; `evicts`: the demand has pods, all of which may have others evicted."""
    if not any(one.guaranteed for one in use.resources) or not use.within_guarantee(asked):
        return f"; AcceleratorQuota {use.name} would allow it"
    start = f"; AcceleratorQuota {use.name} guarantees it, and no node has free devices for it now"
    cohort = use.quota.spec.cohort
    if cohort is None:
        return f"{start}; without a cohort there is nobody to take them back from"
    if not use.reclaims:
        return f"{start}; nobody is evicted for it, because spec.reclaimWithinCohort is Never"
    if not evicts:
        return (
            f"{start}; nobody is evicted for a claim without a pod, or for a pod with preemptionPolicy Never"
        )
    if not reclaimable(use, asked, others):
        return f"{start}; no quota of cohort {cohort} whose spec.reclaimWithinCohort is Any has borrowed such devices"
    return (
        f"{start}; those that cohort {cohort} has borrowed are taken back as far as their pods may be evicted"
    )
