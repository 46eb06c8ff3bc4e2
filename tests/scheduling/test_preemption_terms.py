"""What a replica remembers of its preemptions ends with its term."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.cutoffclaims import PATIENCE
from apportion.cluster.kinds import PODS
from tests.observedcluster import request
from tests.scheduling.evicting import ends, holds, starts, trial, waits


async def test_who_was_served_in_an_earlier_term_and_waits_with_another_pod_has_evicted_nobody_in_vain(
    unanswered: Client,
) -> None:
    """Under another leader its first pod ran to its end; the claim has been given back, and somebody else has the device."""
    made = trial(unanswered, 1, cooldown="10m")
    world = made.world
    holds(world, "low", 0)
    waits(world, "high", 1, priority=5)
    await made.passes()
    ends(world, "low")
    await made.passes()
    assert world.places() == {"high": "n1"}
    await made.cycle.preemptions.end()
    starts(world, "high")
    pod = world.seen[PODS, "team", "high"]
    world.gone(PODS, pod)
    world.claim("high", request("gpu", count=1))
    holds(world, "low-anew", 0)
    world.pod("next", "high", gates=(GATE,), spec={"priority": 5})
    await made.passes(1)
    world.clock.now += PATIENCE
    await made.passes(3)
    assert made.evicted == ["low", "low-anew"]
