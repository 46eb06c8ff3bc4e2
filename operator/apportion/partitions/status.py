"""Status of layouts and policies.

In: plans, the snapshot, the old status. Out: the new status, equal to the old one when nothing changed, so that it need
not be written.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from apportion.api.conditions import condition
from apportion.api.policy import MOST_CLASSES, AllocationPolicy
from apportion.api.unresolved import resolved
from apportion.cluster.snapshot import Snapshot
from apportion.partitions.layouts import LayoutPlan
from apportion.partitions.sharednodes import taken_by_older
from apportion.partitions.unresolved import unresolved

_LONGEST = 253
"""Characters of the name of an object: a class of a longer one is refused."""
NONE_SHORT: Final[Mapping[str, int]] = MappingProxyType({})


def layout_status(plan: LayoutPlan, now: datetime) -> dict[str, Any]:
    """Return the status of a layout."""
    metadata, old = plan.layout.metadata, plan.layout.status.conditions
    ready = plan.desired - plan.unready - set(plan.blocked)
    if plan.broken is None:
        reason, message = "Valid", ""
    else:
        field = plan.broken.field
        fits = not field.startswith("spec.partitions") or field.endswith((".profile", ".start"))
        reason = "Broken" if fits else "DoesNotFit"
        message = str(plan.broken)
    accepted = condition("Accepted", "Valid", reason, message, old, metadata, now)
    if not plan.desired:
        reason, message = "NoCards", plan.unselected or message
    elif plan.blocked:
        reason = "Blocked"
        message = "; ".join(f"{node}: {why}" for node, why in sorted(plan.blocked.items())[:10])
    elif plan.unready:
        reason, message = "Changing", f"waits for {', '.join(sorted(plan.unready)[:10])}"
    else:
        reason, message = "Complete", ""
    complete = condition("Ready", "Complete", reason, message, old, metadata, now)
    return {
        "nodes": {"desired": len(plan.desired), "ready": len(ready), "blocked": len(plan.blocked)},
        "deviceClasses": [name for each in plan.classes if len(name := each["metadata"]["name"]) <= _LONGEST],
        "observedGeneration": metadata.generation,
        "conditions": [accepted, complete],
    }


def policy_status(
    policy: AllocationPolicy, snapshot: Snapshot, now: datetime, short: Mapping[str, int] = NONE_SHORT
) -> dict[str, Any]:
    """Return the status of a policy; `short`: how many warm partitions no card has room for, by profile."""
    managed, metadata = snapshot.managed, policy.metadata
    own = {name for name in managed.known if managed.policy_names.get(name) == metadata.name}
    pending, allocated = snapshot.claim_index.counts(frozenset(own))
    taken = [
        f"spec.deviceClasses: DeviceClass {name} already obeys AllocationPolicy {older}, which is older"
        for name, older in managed.conflicts.get(metadata.name, ())
    ]
    taken += [taken_by_older(policy, snapshot.policies.values(), snapshot.nodes.values())]
    message = "; ".join(filter(None, taken))
    reason = "Overlap" if message else "Valid"
    accepted = condition("Accepted", "Valid", reason, message, policy.status.conditions, metadata, now)
    missing = unresolved(policy.spec, snapshot)
    conditions = [accepted, resolved(missing, policy.status.conditions, metadata, now)]
    if policy.spec.partitions.warm:
        message = "; ".join(_short(policy, short, snapshot))
        reason = "NoRoom" if message else "Complete"
        conditions.append(
            condition("Warm", "Complete", reason, message, policy.status.conditions, metadata, now)
        )
    return {
        "managedClasses": sorted(own)[:MOST_CLASSES],
        "pending": pending,
        "allocated": allocated,
        "observedGeneration": metadata.generation,
        "conditions": conditions,
    }


def _short(policy: AllocationPolicy, short: Mapping[str, int], snapshot: Snapshot) -> Iterator[str]:
    """Yield the entries of the warm counts for which there is no room; a profile that nothing offers is another matter."""
    for index, entry in enumerate(policy.spec.partitions.warm):
        missing = min(short.get(entry.profile, 0), entry.count)
        if missing and entry.profile in snapshot.devices.names.profiles:
            yield f"spec.partitions.warm[{index}].count: no card has room for {missing} more {entry.profile}"
