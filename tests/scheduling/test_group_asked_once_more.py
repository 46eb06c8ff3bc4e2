"""A group that was refused is asked once more before a pod that came later, and its decision may last for several turns then."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from tests.clock import Ticking
from tests.observedcluster import request
from tests.scheduling.podgroups import gang

PODS = 16


@pytest.mark.parametrize("step", range(1, 25))
async def test_a_decision_that_lasts_goes_on_in_the_same_walk(unanswered: Client, step: int) -> None:
    """Nobody went on with it, and the pod that waited for its end was the last of the walk: that ended the operator."""
    world = gang(PODS, PODS // 4, count=1)
    world.clock = clock = Ticking(step=0.0)
    world.policy(queue={"mostReserved": 0})
    busy = world.claim("busy", request("gpu"))
    world.allocate(busy, "n0", "gpu-0")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places().keys() == {"busy"}
    clock.now += 1
    clock.step = 0.003
    world.claim("late", request("gpu"))
    world.pod("late", "late", gates=(GATE,))
    for number, _ in enumerate(cycle._pass(longest=1e9, evaluates=False), 1):
        if number == step:
            world.gone(CLAIMS, busy)
    assert len(world.places().keys() - {"busy"}) in (1, PODS)
