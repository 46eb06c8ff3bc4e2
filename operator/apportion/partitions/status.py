"""Status: what layouts and policies say about themselves.

In: plans, the snapshot, the old status. Out: the new status, equal to the old one when nothing changed, so that
nothing is written for nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from apportion.api.metadata import Condition
from apportion.api.policy import AllocationPolicy
from apportion.cluster.snapshot import Snapshot
from apportion.partitions.layouts import Plan


def condition(
    old: tuple[Condition, ...],
    kind: str,
    *,
    holds: bool,
    reason: str,
    message: str,
    now: datetime,
    generation: int,
) -> Condition:
    """Return a condition that keeps its transition time while its status stays."""
    status: Literal["True", "False"] = "True" if holds else "False"
    before = next((c for c in old if c.type == kind), None)
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=before.last_transition_time
        if before is not None and before.status == status
        else now.astimezone(UTC).replace(microsecond=0),
        observed_generation=generation,
    )


def layout_status(plan: Plan, now: datetime) -> dict[str, Any]:
    """Return the status of a layout."""
    metadata, old = plan.layout.metadata, plan.layout.status.conditions
    ready = plan.desired - plan.unready - set(plan.blocked)
    accepted = condition(
        old,
        "Accepted",
        holds=plan.broken is None,
        reason="Valid"
        if plan.broken is None
        else "DoesNotFit"
        if plan.broken.field.startswith("spec.partitions")
        else "Broken",
        message="" if plan.broken is None else str(plan.broken),
        now=now,
        generation=metadata.generation,
    )
    if not plan.desired:
        why, text = (
            "NoCards",
            "no node has a card that nodeSelector and devices select and that offers the profiles",
        )
    elif plan.blocked:
        why = "Blocked"
        text = "; ".join(f"{node}: {reason}" for node, reason in sorted(plan.blocked.items())[:10])
    elif plan.unready:
        why, text = "Changing", f"waits for {', '.join(sorted(plan.unready)[:10])}"
    else:
        why, text = "Complete", ""
    complete = condition(
        old,
        "Ready",
        holds=why == "Complete",
        reason=why,
        message=text,
        now=now,
        generation=metadata.generation,
    )
    return {
        "nodes": {"desired": len(plan.desired), "ready": len(ready), "blocked": len(plan.blocked)},
        "deviceClasses": [each["metadata"]["name"] for each in plan.classes],
        "observedGeneration": metadata.generation,
        "conditions": [c.to_json() for c in (accepted, complete)],
    }


def policy_status(policy: AllocationPolicy, snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Return the status of a policy."""
    manage = snapshot.management
    name, metadata = policy.metadata.name, policy.metadata
    existing = {known.name for known in snapshot.classes.values()}
    own = sorted(known for known, owner in manage.names.items() if owner == name and known in existing)
    pending, allocated = _counts(frozenset(own), snapshot)
    lost = manage.overlaps.get(name, ())
    accepted = condition(
        policy.status.conditions,
        "Accepted",
        holds=not lost,
        reason="Overlap" if lost else "Valid",
        message="; ".join(
            f"spec.deviceClasses: DeviceClass {known} already obeys AllocationPolicy {older}, which is older"
            for known, older in lost
        ),
        now=now,
        generation=metadata.generation,
    )
    return {
        "managedClasses": own,
        "pending": pending,
        "allocated": allocated,
        "observedGeneration": metadata.generation,
        "conditions": [accepted.to_json()],
    }


def _counts(classes: frozenset[str], snapshot: Snapshot) -> tuple[int, int]:
    pending = allocated = 0
    for claim in snapshot.claims.values():
        if claim.classes & classes:
            if claim.allocation is None:
                pending += 1
            else:
                allocated += 1
    return pending, allocated


def same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Say whether a status says nothing new."""
    return all(old.get(key) == value or (not old.get(key) and not value) for key, value in new.items())
