"""Evicted pods that are gone while their claims still have their devices: nobody can take these up yet, so that nothing was in vain."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from tests.scheduling.evicting import holds, trial, waits


async def test_what_controller_manager_frees_late_is_kept_until_then(unanswered: Client) -> None:
    """It may be down for minutes, where a control plane of one machine starts anew: the pod that waits got nothing, and its namespace lost the right to evict."""
    made = trial(unanswered, 1, cooldown="10m")
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    waits(made.world, "patient", 1)
    await made.passes()
    assert made.evicted == ["low"]
    made.world.gone(PODS, made.world.seen[PODS, "team", "low"])
    await made.passes(80)
    assert ("high", "PreemptionInVain") not in made.world.warned
    made.world.gone(CLAIMS, made.world.seen[CLAIMS, "team", "low"])
    await made.passes()
    assert made.world.places() == {"high": "n1"}
