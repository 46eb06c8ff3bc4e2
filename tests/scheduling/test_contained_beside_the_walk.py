"""A defect that one demand meets ends no pass: not the look for new nodes, the search for victims, or for whom devices are taken back."""

import pytest
from structlog.testing import capture_logs

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.scheduling.evicting import SteeredEvictor, ends, holds, trial, waits
from tests.scheduling.poisoned import poisoned_pods, poisoned_world


def broken(*_args: object, **_more: object) -> None:
    raise ZeroDivisionError("a defect")


async def test_others_are_shown_to_autoscalers(unanswered: Client) -> None:
    """Ten seconds after such a pod came the operator ended, and so did the next leader."""
    world = poisoned_pods()
    world.claim("large", request("gpu", count=9))
    world.pod("large", "large", gates=(GATE,))
    cycle = world.cycle(unanswered)
    with capture_logs():
        for _ in range(4):
            cycle.once()
            world.clock.now += 11
    assert ("first", "Defect") in world.warned
    assert ("large", "ShownToAutoscalers") in world.warned


async def test_pods_go_for_others(unanswered: Client) -> None:
    """The second one gets what it waits for."""
    world = poisoned_pods()
    rules = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}
    world.policy(preemption=rules, queue={"mostReserved": 0})
    evictor = SteeredEvictor(world)
    cycle = world.cycle(unanswered, evictor=evictor)
    with capture_logs():
        for _ in range(4):
            cycle.once()
            world.clock.now += 2
            await cycle.preemptions._evictions.answered()
    assert evictor.evicted == ["low"]


async def test_devices_are_taken_back_for_others(unanswered: Client) -> None:
    """From a pod that no scheduler takes."""
    world = poisoned_world()
    world.policy(unusedTimeout="60s", queue={"mostReserved": 0})
    claim = world.claim("stuck", request("gpu"))
    world.pod("stuck", "stuck")
    world.allocate(claim, "n1", "gpu-0", timestamp=world.time())
    cycle = world.cycle(unanswered)
    with capture_logs() as logs:
        for _ in range(10):
            cycle.once()
            world.clock.now += 20
        await cycle._writes.answered()
    assert "claim.not_given_back" in [line["event"] for line in logs], "nobody answers, but it was tried"


@pytest.mark.slow
@pytest.mark.parametrize("step", ["search", "serve"])
async def test_what_breaks_down_for_one_alone_is_reported(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Though the walk decides about it without a defect: what is kept for it is free then."""
    made = trial(unanswered, 1)
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    if step == "search":
        monkeypatch.setattr("apportion.scheduling.preemption.victimsearch.victim_steps", broken)
        await made.passes()
        assert made.evicted == []
        return
    await made.passes()
    assert made.evicted == ["low"]
    monkeypatch.setattr("apportion.scheduling.preemption.serving.decide", broken)
    ends(made.world, "low")
    await made.passes()
    assert made.world.places() == {"high": "n1"}
