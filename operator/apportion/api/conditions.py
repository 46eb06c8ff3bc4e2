"""Conditions of statuses, and whether a status has to be written.

In: what is true now, the old conditions. Out: conditions that keep their transition time while their status stays.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from apportion.api.model import MOST_MESSAGE, Condition, ObjectMeta


def condition(
    type_: str,
    good: str,
    reason: str,
    message: str,
    old: tuple[Condition, ...],
    metadata: ObjectMeta,
    now: datetime,
) -> dict[str, Any]:
    """Return a condition, true for the reason `good`; it keeps its transition time while its status stays. A message that is too long is cut."""
    status: Literal["True", "False"] = "True" if reason == good else "False"
    before = next((each for each in old if each.type == type_ and each.status == status), None)
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message if len(message) <= MOST_MESSAGE else f"{message[: MOST_MESSAGE - 3]}...",
        last_transition_time=before.last_transition_time
        if before is not None
        else now.astimezone(UTC).replace(microsecond=0),
        observed_generation=metadata.generation,
    ).to_json()


def same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Say whether the new status holds nothing but what the old one has."""
    return all(old.get(key) == value or (not old.get(key) and not value) for key, value in new.items())
