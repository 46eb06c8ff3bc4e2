"""Unresolved: a name in a spec that is that of nothing in the cluster, and the condition that says so (ADR 42).

The spec is followed all the same: what the name is for may come later, as with references that Gateway API's condition ResolvedRefs is about.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from apportion.api.conditions import condition
from apportion.api.meant import meant
from apportion.api.model import Condition, ObjectMeta


class Unresolved(NamedTuple):
    """One such name."""

    reason: str
    """One word."""
    text: str
    """A sentence that names the field, and what was probably meant."""


def unknown_class(field: str, name: str, known: Collection[str]) -> Unresolved:
    """Return the sentence about a DeviceClass that does not exist."""
    return Unresolved("UnknownClass", f"{field}: DeviceClass {name} does not exist{meant(name, known)}")


def not_published(field: str, what: str, name: str, known: Collection[str]) -> Unresolved:
    """Return the sentence about a name that no device has."""
    return Unresolved(
        "NotPublished", f"{field}: no node offers a device with {what} {name}{meant(name, known)}"
    )


def resolved(
    missing: Iterable[Unresolved], old: tuple[Condition, ...], metadata: ObjectMeta, now: datetime
) -> dict[str, Any]:
    """Return the condition Resolved; its reason is that of the first name."""
    found = [*missing]
    message = "; ".join(each.text for each in found)
    reason = found[0].reason if found else "Valid"
    return condition("Resolved", "Valid", reason, message, old, metadata, now)


def newly_unresolved(old: Iterable[Condition], status: Mapping[str, Any]) -> str | None:
    """Return what a new status says of names that stand for nothing; None: nothing, or the old conditions say the same."""
    [found] = [each for each in status["conditions"] if each["type"] == "Resolved"]
    return found["message"] if found["message"] not in {"", *(each.message for each in old)} else None
