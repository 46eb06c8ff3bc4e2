"""DefragPolicies that are edited while no operator leads, in the middle of their moves."""

import copy

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import DEFRAGS
from tests.clients import silent
from tests.defrag.moving import crowded

__all__ = ["silent"]


@pytest.mark.parametrize("edited", [True, False])
async def test_a_plan_for_a_policy_that_was_edited_while_nobody_led_is_given_up(
    silent: Client, *, edited: bool
) -> None:
    """The next leader took it for the policy that the plan was made for, and went on evicting."""
    trial = crowded(silent)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    if edited:
        raw = copy.deepcopy(trial.cluster.objects["DefragPolicy", "", "tidy"])
        raw["metadata"]["generation"] += 1
        raw["spec"] |= {"nodeSelector": {"matchLabels": {"pool": "spare"}}}
        trial.cluster.see(DEFRAGS, raw)
    trial.lead()
    await trial.rounds()
    found = trial.campaign
    assert found is not None
    assert (found.reason, len(trial.evicted)) == (("PolicyChanged", 1) if edited else ("Completed", 2))
    assert (len(trial.running()), trial.held) == (8, set())
