"""Evictions in vain are followed by a rest, each twice as long as the last one."""

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.preemption.cooldown import Cooldown
from tests.clock import Clock
from tests.scheduling.evicting import (
    Trial,
    ends,
    holds,
    loses_its_devices,
    starts,
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


@pytest.mark.parametrize("ends_all_the_same", [True, False])
async def test_an_eviction_without_an_answer_was_in_vain_if_the_pod_has_ended(
    unanswered: Client, *, ends_all_the_same: bool
) -> None:
    """It counted as none: behind a slow webhook the victims came back, and went again and again."""
    made = trial(unanswered, 1, cooldown="10m")
    holds(made.world, "low", 0)
    made.evictor.unanswered = ["low"]
    made.evictor.unseen = () if ends_all_the_same else ("low",)
    waits(made.world, "high", 1, priority=5)
    await made.passes()
    if ends_all_the_same:
        ends(made.world, "low")
        await made.passes()
        loses_its_devices(made.world, "high")
        holds(made.world, "low-anew", 0)
    else:
        made.evictor.protected = ("low",)
        await made.passes(20)
        made.evictor.protected = ()
        made.world.clock.now += 60
    await made.passes(20)
    assert made.evicted == (["low"] if ends_all_the_same else ["low", "low"])


async def test_a_preemptor_that_is_deleted_and_made_anew_before_it_starts_evicts_ever_more_seldom(
    unanswered: Client,
) -> None:
    """Each time once it has its devices, and before a scheduler binds it; what it evicted is back each time."""
    made = trial(unanswered, 1, cooldown="10m")
    holds(made.world, "low-0", 0)
    for number in range(2):
        await served(made, number)
        assert made.evicted == ["low-0"]
        ends(made.world, f"high-{number}")
        if f"low-{number}" in made.evicted:
            waits(made.world, f"low-{number + 1}", 1)
            await made.passes(2)
            starts(made.world, f"low-{number + 1}")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
async def test_a_preemptor_that_was_bound_is_not_in_vain_however_short_it_runs(
    unanswered: Client, *, seen: bool
) -> None:
    """It may be bound, over and deleted between two passes."""
    made = trial(unanswered, 1, cooldown="10m")
    holds(made.world, "low-0", 0)
    for number in range(3):
        await served(made, number)
        starts(made.world, f"high-{number}")
        if seen:
            await made.passes(1)
        ends(made.world, f"high-{number}")
        holds(made.world, f"low-{number + 1}", 0)
        await made.passes(1)
    assert made.evicted == ["low-0", "low-1", "low-2"]


async def served(made: Trial, number: int) -> None:
    """Let a pod wait, and whom it evicts end."""
    waits(made.world, f"high-{number}", 1, priority=5)
    await made.passes(3)
    if f"low-{number}" in made.evicted:
        ends(made.world, f"low-{number}")
    await made.passes(3)
    assert (f"high-{number}" in made.world.places()) is (f"low-{number}" in made.evicted)


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
