"""Status of a DefragPolicy: what was planned, what is done, and what is wrong with it.

In: a policy, a plan, the time. Out: parts of the new status, equal to those of the old one when nothing changed, so that they need not be written.
"""

from datetime import datetime
from typing import Any

from apportion.api.conditions import condition
from apportion.api.defrag import Campaign, DefragMode, DefragPlan, DefragPolicy
from apportion.errors import BrokenInput
from apportion.scheduling.defrag.planning import Planned

_CONDITIONS = ("Accepted", "Planned", "Completed")


def policy_status(
    policy: DefragPolicy, now: datetime, *, next_schedule: datetime | None, flaw: BrokenInput | None = None
) -> dict[str, Any]:
    """Return what is true of a policy now, its plan and what is carried out aside; `flaw`: why it cannot work as it is written."""
    metadata, old = policy.metadata, policy.status.conditions
    reason, message = ("Valid", "") if flaw is None else ("Broken", str(flaw))
    found = {"Accepted": condition("Accepted", "Valid", reason, message, old, metadata, now)}
    for each in old:
        found.setdefault(each.type, each.to_json())
    campaign = policy.status.campaign
    if campaign is not None:
        reason, message = campaign.reason, campaign.message
        if campaign.ended is None:
            reason, message = "Running", campaign.progress
        found["Completed"] = condition("Completed", "Completed", reason, message, old, metadata, now)
    elif policy.spec.mode is DefragMode.RECOMMEND:
        found.pop("Completed", None)
    return {
        "nextSchedule": _text(next_schedule),
        "observedGeneration": metadata.generation,
        "conditions": [found[type_] for type_ in _CONDITIONS if type_ in found],
    }


def planned_status(
    policy: DefragPolicy, planned: Planned, record: DefragPlan, opened: datetime, now: datetime
) -> dict[str, Any]:
    """Return what a window has brought, with all conditions."""
    metadata, old = policy.metadata, policy.status.conditions
    text = condition("Planned", "Planned", planned.verdict, planned.message, old, metadata, now)
    others = policy_status(policy, now, next_schedule=None)["conditions"]
    kept = {each["type"]: each for each in others} | {"Planned": text}
    return {
        "lastSchedule": _text(opened),
        "summary": summary(planned),
        # Absent values are written as null: a merge patch would keep those of the plan before.
        "plan": record.model_dump(mode="json", by_alias=True),
        "conditions": [kept[type_] for type_ in _CONDITIONS if type_ in kept],
    }


def begun(policy: DefragPolicy, campaign: Campaign) -> DefragPolicy:
    """Return a policy as it is once a plan of it is being carried out."""
    status = policy.status.model_copy(update={"campaign": campaign})
    return policy.model_copy(update={"status": status})


def campaign_status(campaign: Campaign) -> dict[str, Any]:
    """Return what is carried out, as the status has it."""
    # Absent values are written as null: a merge patch would keep those of a campaign before.
    return {"campaign": campaign.model_dump(mode="json", by_alias=True)}


def summary(planned: Planned) -> str:
    """Return a plan in one line."""
    plan = planned.plan
    if plan is None or not plan.moves:
        return planned.message[:256]
    pods = f"{plan.pods} pod{'s' if plan.pods != 1 else ''} would move"
    if plan.served is not None:
        return f"{pods}, and there is room on node {plan.served.node}"[:256]
    cards = len(plan.cards)
    return f"{pods}, and {cards} more whole card{'s are' if cards != 1 else ' is'} free"


def _text(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment is not None else None
