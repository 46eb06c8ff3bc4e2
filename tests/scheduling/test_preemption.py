"""Pods go for others of higher priority: who, when, and what becomes of their devices."""

import math

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.scheduling.evicting import (
    ends,
    holds,
    mark_ending,
    starts,
    trial,
    waits,
)


@pytest.mark.slow
async def test_nobody_goes_unless_a_policy_says_so(unanswered: Client) -> None:
    """Preemption is off by default."""
    made = trial(unanswered, 1, mode="Never")
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == []


async def test_a_pod_of_higher_priority_gets_what_one_of_lower_priority_has(unanswered: Client) -> None:
    """Both can read why."""
    made = trial(unanswered, 2)
    holds(made.world, "low", 0)
    holds(made.world, "middle", 1, priority=3)
    waits(made.world, "high", 1, priority=5)
    await made.passes()
    assert made.evicted == ["low"]
    ends(made.world, "low")
    await made.passes()
    assert made.world.places()["high"] == "n1"
    assert ("low", "Preempted") in made.world.warned
    assert ("high", "Preempting") in made.world.warned


@pytest.mark.parametrize("priority", [0, 3])
async def test_nobody_goes_for_equal_or_lower_priority(unanswered: Client, priority: int) -> None:
    """Never among equals: two of them would take turns for ever."""
    made = trial(unanswered, 1)
    holds(made.world, "holder", 0, priority=3)
    waits(made.world, "asks", 1, priority=priority)
    await made.passes(4)
    assert made.evicted == []


@pytest.mark.parametrize("classes", [("gpu", "calm"), ("calm", "gpu"), ("gpu", "slow"), ("gpu", "gpu")])
async def test_pods_go_for_one_that_names_several_claims_if_the_policies_of_all_say_so(
    unanswered: Client, classes: tuple[str, str]
) -> None:
    """The claim with the smaller UID decided for both, also for how long the pod waits before."""
    made = trial(unanswered, 2)
    for name, mode in (("calm", "Never"), ("slow", "LowerPriority")):
        made.world.device_class(name)
        made.world.policy(name, classes=(name,), preemption={"mode": mode, "after": "1m"})
    holds(made.world, "low", 0, 1)
    for name, device_class in zip("ab", classes, strict=True):
        made.world.claim(name, request(device_class))
    made.world.pod("high", "a", "b", gates=(GATE,), spec={"priority": 5})
    await made.passes(4)
    assert made.evicted == (["low"] if classes == ("gpu", "gpu") else [])
    made.world.clock.now += 60
    await made.passes(4)
    assert made.evicted == ([] if "calm" in classes else ["low"])


async def test_nobody_goes_before_the_demand_has_waited(unanswered: Client) -> None:
    """`after`: what ends by itself in time costs nobody anything."""
    made = trial(unanswered, 1, after="20s")
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    await made.passes(10)
    assert made.evicted == []
    made.world.clock.now += 10
    await made.passes(1)
    assert made.evicted == ["low"]


async def test_a_pod_that_has_just_got_its_devices_stays(unanswered: Client) -> None:
    """`minRuntime`."""
    made = trial(unanswered, 2, minRuntime="10m")
    holds(made.world, "young", 0, age=60)
    holds(made.world, "old", 1, age=900, priority=4)
    waits(made.world, "high", 1, priority=5)
    await made.passes(3)
    assert made.evicted == ["old"]


async def test_a_pod_goes_that_seems_to_have_got_its_devices_in_time_to_come(unanswered: Client) -> None:
    """A leader whose clock was a day ahead wrote that: nobody was evicted for as long."""
    made = trial(unanswered, 1, minRuntime="10m")
    holds(made.world, "low", 0, age=-86_400.0)
    waits(made.world, "high", 1, priority=5)
    await made.passes()
    assert made.evicted == ["low"]


async def test_what_is_freed_piece_by_piece_is_kept_for_the_preemptor(unanswered: Client) -> None:
    """The first GPU is free while the second pod still ends; one GPU is what an older pod of low priority waits for."""
    made = trial(unanswered, 2)
    holds(made.world, "one", 0)
    holds(made.world, "two", 1)
    waits(made.world, "patient", 1)
    waits(made.world, "high", 2, priority=5)
    await made.passes()
    assert made.evicted == ["one", "two"]
    ends(made.world, "one")
    await made.passes()
    assert "patient" not in made.world.places()
    ends(made.world, "two")
    await made.passes()
    assert made.world.places() == {"high": "n1"}


async def test_what_was_kept_is_free_when_the_demand_is_gone(unanswered: Client) -> None:
    """Those who wait get it."""
    made = trial(unanswered, 2)
    holds(made.world, "one", 0)
    holds(made.world, "two", 1)
    waits(made.world, "patient", 1)
    waits(made.world, "high", 2, priority=5)
    await made.passes()
    ends(made.world, "one")
    ends(made.world, "high")
    await made.passes()
    assert made.world.places() == {"two": "n1", "patient": "n1"}


async def test_what_nobody_takes_up_is_free_for_others_after_a_while(unanswered: Client) -> None:
    """The node went bad meanwhile: nothing is kept for ever, and nobody else goes for this namespace."""
    made = trial(unanswered, 1, cooldown="10m")
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5, nodeSelector={"kubernetes.io/os": "linux"})
    made.world.node("n1", cpu="64", **{"kubernetes.io/os": "linux"})
    await made.passes()
    assert made.evicted == ["low"]
    made.world.node("n1", cpu="64")
    ends(made.world, "low")
    waits(made.world, "patient", 1)
    await made.passes(10)
    assert "patient" not in made.world.places()
    await made.passes(40)
    assert made.world.places()["patient"] == "n1"
    assert ("high", "PreemptionInVain") in made.world.warned
    made.world.node("n1", cpu="64", **{"kubernetes.io/os": "linux"})
    starts(made.world, "patient")
    await made.passes(20)
    assert made.evicted == ["low"]


async def test_the_next_leader_keeps_what_ends_for_the_same_demand_and_evicts_nobody(
    unanswered: Client,
) -> None:
    """It knows nothing of the eviction, and finds a pod that ends; the other GPU would be taken at once."""
    made = trial(unanswered, 2, after="1h")
    holds(made.world, "victim", 0)
    mark_ending(made.world, "victim")
    waits(made.world, "high", 2, priority=5)
    await made.passes()
    waits(made.world, "small", 1)
    await made.passes()
    assert "small" not in made.world.places()
    ends(made.world, "victim")
    await made.passes()
    assert made.world.places() == {"high": "n1"}
    assert made.evicted == []


async def test_a_write_that_fails_within_a_pass_costs_nobody_what_is_kept(unanswered: Client) -> None:
    """The demand is not in the queue of that pass, which was made before, and waits all the same."""
    steps, at = 1, 0
    while at < steps:
        made = trial(unanswered, 1)
        holds(made.world, "low", 0)
        waits(made.world, "high", 1, 5)
        waits(made.world, "other", 1, 3)
        await made.passes()
        assert made.evicted == ["low"]
        ends(made.world, "low")
        made.cycle.once()
        assert made.world.places() == {"high": "n1"}
        [decided] = [
            made.world.snapshot.assumed.get(uid) for uid in made.world.snapshot.claims if "high" in uid
        ]
        assert decided is not None
        for steps, work in enumerate(made.cycle._pass(longest=math.inf, evaluates=False), start=1):
            if work is not None:
                work()
            if steps == at + 1:
                made.world.snapshot.forget(decided)
        made.cycle.once()
        assert made.world.places() == {"high": "n1"}, at
        assert "PreemptionInVain" not in {reason for _, reason in made.world.warned}
        at += 1
    assert steps > 4


@pytest.mark.slow
async def test_who_was_served_elsewhere_is_not_served_twice_when_the_evicted_are_gone(silent: Client) -> None:
    """The first write is still under way: its devices would be given to others, and both would have them."""
    made = trial(silent, 1, nodes=2)
    holds(made.world, "low", 0)
    holds(made.world, "other", 0, node="n2", priority=9)
    waits(made.world, "high", 1, priority=5)
    await made.passes()
    assert made.evicted == ["low"]
    ends(made.world, "other")
    made.cycle.once()
    assert made.world.places() == {"low": "n1", "high": "n2"}
    ends(made.world, "low")
    waits(made.world, "late", 1)
    for _ in range(3):
        made.cycle.once()
    assert made.world.places() == {"high": "n2"}
    await made.passes()
    assert made.world.places() == {"high": "n2", "late": "n1"}
