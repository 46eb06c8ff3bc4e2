"""Status of a quota: what is used, borrowed and waited for, and why.

In: the use of a quota, the demands that wait, the snapshot, the old status. Out: the new status, equal to the old one when nothing
changed, so that it need not be written.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from apportion.api.conditions import condition
from apportion.api.meant import meant
from apportion.api.quota import QuotaReason
from apportion.api.unresolved import resolved
from apportion.cluster.snapshot import Snapshot
from apportion.quota.resource import Resource
from apportion.quota.totals import Totals
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.quota.overlimit import EXCEEDS_LIMIT
from apportion.scheduling.quota.unresolved import unresolved

MOST_NAMED = 10
"""Namespaces that a message names."""
_MOST_COMPARED = 64
"""Cohorts among which the one is looked for that was probably meant."""


def quota_status(
    use: QuotaUse, waiting: Sequence[Excess | None], totals: Totals, snapshot: Snapshot, now: datetime
) -> dict[str, Any]:
    """Return the status of a quota; `waiting`: for each demand that waits the limit for which it does, None: it waits for devices."""
    metadata, old = use.quota.metadata, use.quota.status.conditions
    pending = Counter(each.resource.name for each in waiting if each is not None)
    flaws = "; ".join(_unmanaged(use, snapshot))
    accepted = condition(
        "Accepted", "Valid", "UnmanagedClass" if flaws else "Valid", flaws, old, metadata, now
    )
    contested = "; ".join(_contested(use, snapshot))
    exclusive = condition(
        "Exclusive", "Valid", "Overlap" if contested else "Valid", contested, old, metadata, now
    )
    served = condition("Served", "NothingWaits", *_why(use, waiting), old, metadata, now)
    missing = unresolved(use, totals, snapshot)
    conditions = [accepted, exclusive, served, resolved(missing, old, metadata, now)]
    if use.quota.spec.cohort is not None:
        alone = _alone(use.quota.spec.cohort, snapshot)
        conditions.append(
            condition("Joined", "Valid", "Alone" if alone else "Valid", alone, old, metadata, now)
        )
    return {
        "namespaces": len(use.namespaces),
        "pending": len(waiting),
        "share": round(1000 * use.share(totals.of)),
        "summary": ", ".join(_in_short(use))[:1024],
        "resources": [
            {
                "name": resource.name,
                "used": resource.text(used),
                "borrowed": resource.text(use.borrowed(index)),
                "pending": pending[resource.name],
                "reason": _reason(resource, used, pending[resource.name]),
            }
            for index, (resource, used) in enumerate(zip(use.resources, use.used, strict=True))
        ],
        "observedGeneration": metadata.generation,
        "conditions": conditions,
    }


def _reason(resource: Resource, used: int, pending: int) -> QuotaReason:
    if resource.limit is not None and used > resource.limit:
        return "BeyondLimit"
    if pending or used == resource.limit:
        return "LimitReached"
    return "Borrowing" if used > resource.guaranteed else "WithinGuarantee"


def _in_short(use: QuotaUse) -> Iterator[str]:
    for resource, used in zip(use.resources, use.used, strict=True):
        limit = f"/{resource.text(resource.limit)}" if resource.limit is not None else ""
        yield f"{resource.name} {resource.text(used)}{limit}"


def _why(use: QuotaUse, waiting: Sequence[Excess | None]) -> tuple[str, str]:
    """Return reason and message of the condition Served."""
    if not waiting:
        return "NothingWaits", ""
    over = Counter(each.resource.name for each in waiting if each is not None)
    texts = [f"{count} wait for the limit of {name}" for name, count in sorted(over.items())]
    others = len(waiting) - over.total()
    if others:
        within = all(used < one.guaranteed for one, used in zip(use.resources, use.used, strict=True))
        texts.append(f"{others} wait for devices" + (", which are guaranteed" if within else ""))
    return (EXCEEDS_LIMIT if over else "WaitsForDevices"), "; ".join(texts)


def _unmanaged(use: QuotaUse, snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each DeviceClass that exists, and whose devices somebody else allocates."""
    managed = snapshot.managed
    for index, resource in enumerate(use.resources):
        name = resource.device_class
        if name in managed.known and name not in managed.policies:
            yield (
                f"spec.resources[{index}].deviceClass: DeviceClass {name} is not managed by apportion,"
                " so its devices are counted, and no limit of them is kept"
            )


def _alone(cohort: str, snapshot: Snapshot) -> str:
    """Return that a quota is the only one of its cohort, with the cohort that was probably meant; empty: it is not."""
    cohorts = snapshot.quota_index.assignment.cohorts
    if cohorts.get(cohort, 0) > 1:
        return ""
    others = cohorts.keys() - {cohort} if len(cohorts) <= _MOST_COMPARED else ()
    return (
        f"spec.cohort: no other AcceleratorQuota is of cohort {cohort}, so guarantees and weights give nobody a turn before others"
        f"{meant(cohort, others)}"
    )


def _contested(use: QuotaUse, snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each namespace that another quota selects, too."""
    rows = sorted(snapshot.quota_index.assignment.contested.items())
    own = [(namespace, names) for namespace, names in rows if use.name in names]
    for namespace, names in own[:MOST_NAMED]:
        others = ", ".join(name for name in names if name != use.name)
        yield (
            f"spec.namespaceSelector: namespace {namespace} is selected by AcceleratorQuota {others}, too,"
            f" and obeys {names[0]}, which is the oldest"
        )
    if len(own) > MOST_NAMED:
        yield f"and {len(own) - MOST_NAMED} more namespaces"
