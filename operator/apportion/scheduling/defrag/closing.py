"""Closing: why no move of a plan begins any more.

In: the policy that the plan was made for, the policy and the time as they are now, the plan as it is carried out. Out: reason and message.
"""

from datetime import datetime, timedelta

from apportion.api.defrag import Campaign, DefragMode, DefragPolicy

NO_POLICY = "the policy is gone, or cannot be read"


def closed(
    planned_for: DefragPolicy, present: DefragPolicy | None, campaign: Campaign, now: datetime
) -> tuple[str, str] | None:
    """Return why no move begins any more, as reason and message; `present`: the policy as it is now, None: it is gone, or cannot be read."""
    if present is None:
        return "PolicyChanged", NO_POLICY
    # A leader that took it over has seen no spec but the present one.
    edited = (
        campaign.generation not in {None, present.metadata.generation} or present.spec != planned_for.spec
    )
    if edited or present.spec.mode is not DefragMode.EVICT:
        return "PolicyChanged", "spec was changed"
    # A window that is open for longer than its length was opened by a clock that was ahead.
    if not timedelta() < campaign.closes - now <= present.spec.window:
        return "WindowClosed", "the window has closed; the moves that are left are not made"
    return None
