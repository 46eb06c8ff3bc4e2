"""Status of a quota: what is used, borrowed and waited for, and why.

In: the use of a quota, the demands that wait, the snapshot, the old status. Out: the new status, equal to the old one when nothing
changed, so that it need not be written.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from apportion.api.conditions import condition
from apportion.api.quota import QuotaReason
from apportion.cluster.snapshot import Snapshot
from apportion.quota.resource import Resource
from apportion.quota.totals import Totals
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.quota.overlimit import EXCEEDS_LIMIT

MOST_NAMED = 10
"""Namespaces that a message names."""


def quota_status(
    use: QuotaUse, waiting: Sequence[Excess | None], totals: Totals, snapshot: Snapshot, now: datetime
) -> dict[str, Any]:
    """Return the status of a quota; `waiting`: for each demand that waits the limit for which it does, None: it waits for devices."""
    metadata, old = use.quota.metadata, use.quota.status.conditions
    pending = Counter(each.resource.name for each in waiting if each is not None)
    flaws = [*_flaws(use, totals, snapshot)]
    reason = flaws[0][0] if flaws else "Valid"
    accepted = condition(
        "Accepted", "Valid", reason, "; ".join(text for _, text in flaws)[:4096], old, metadata, now
    )
    contested = "; ".join(_contested(use, snapshot))
    exclusive = condition(
        "Exclusive", "Valid", "Overlap" if contested else "Valid", contested[:4096], old, metadata, now
    )
    served = condition("Served", "NothingWaits", *_why(use, waiting), old, metadata, now)
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
        "conditions": [accepted, exclusive, served],
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


def _flaws(use: QuotaUse, totals: Totals, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield reasons why the quota cannot work as written, each with a message."""
    managed = snapshot.managed
    for index, resource in enumerate(use.resources):
        at, name = f"spec.resources[{index}]", resource.device_class
        if name and name not in managed.known:
            yield "UnknownClass", f"{at}.deviceClass: DeviceClass {name} does not exist"
        elif name and name not in managed.policies:
            yield "UnknownClass", f"{at}.deviceClass: DeviceClass {name} is not managed by apportion"
        elif not totals.of(resource.selection):
            fields = (
                ("profile", resource.profile),
                ("model", resource.model),
                ("capacity", resource.capacity),
            )
            asked = " and ".join(f"{field} {value}" for field, value in fields if value)
            if asked:
                yield "NotPublished", f"{at}: no published device has {asked}"


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
