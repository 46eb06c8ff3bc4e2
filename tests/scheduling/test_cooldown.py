"""Evictions in vain are followed by a rest, each twice as long as the last one."""

from apportion.cluster.client import Client
from apportion.scheduling.preemption.cooldown import Cooldown
from tests.clock import Clock
from tests.scheduling.evicting import (
    ends,
    holds,
    loses_its_devices,
    trial,
    waits,
)


async def test_a_preemptor_that_loses_its_devices_at_once_evicts_nobody_for_a_while(
    unanswered: Client,
) -> None:
    """kube-scheduler refuses the node: the victim came back, and would go again and again."""
    made = trial(unanswered, 1, cooldown="10m")
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    await made.passes()
    ends(made.world, "low")
    await made.passes()
    loses_its_devices(made.world, "high")
    holds(made.world, "low-anew", 0)
    await made.passes(100)
    assert made.evicted == ["low"]
    made.world.clock.now += 600
    await made.passes(3)
    assert made.evicted == ["low", "low-anew"]


def test_each_rest_of_a_namespace_is_twice_as_long_until_it_is_served() -> None:
    """Up to a day."""
    clock = Clock()
    cooldown = Cooldown(clock)
    lengths = [cooldown.in_vain("team", 60.0) for _ in range(14)]
    assert lengths[:3] == [60, 120, 240]
    assert lengths[-1] == 86400
    assert cooldown.rests("team")
    assert not cooldown.rests("others")
    cooldown.served("team")
    assert not cooldown.rests("team")
    assert cooldown.in_vain("team", 60.0) == 60
    clock.now += 61
    assert not cooldown.rests("team")
