"""A plan may free many cards with few restarts, of pods that have parts of many: each of them is kept until the end."""

from datetime import UTC, datetime

from apportion.allocator.defrag.moves import Plan
from apportion.api.defrag import DefragPlan, DefragPolicy
from apportion.dra.device import DeviceId
from apportion.scheduling.defrag.movables import Movables
from apportion.scheduling.defrag.records import campaign_of, held_by, plan_record

MOST = 256


def test_all_cards_that_a_policy_asks_for_are_kept_until_they_are_free() -> None:
    """Those after the 64th were nobody's: others took them while pods were restarted for them, and no move was stopped by that."""
    raw = {
        "metadata": {"name": "tidy", "uid": "u"},
        "spec": {
            "free": {"wholeCards": {"deviceClass": "gpu", "count": MOST}},
            "threshold": MOST,
            "schedule": "* * * * *",
        },
    }
    policy, now = DefragPolicy.from_json(raw), datetime(2026, 1, 1, tzinfo=UTC)
    cards = tuple(DeviceId("gpu.apportion.dev", f"n{number}", "gpu-0") for number in range(MOST))
    plan = Plan((), cards=cards)
    campaign = campaign_of(plan, Movables(), now, now, policy)
    assert {each.device for each in held_by(campaign)} == {*cards}
    record = plan_record(plan, Movables(), now)
    assert DefragPlan.model_validate_json(record.model_dump_json(by_alias=True)).freed == campaign.freed
