"""Turns within a cohort: guarantees first, then priority, then the smaller weighted dominant share."""

import math
from collections import Counter

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import SLICES
from apportion.dra.quantity import NANO
from apportion.scheduling.demands.groups import Queued, demands_of
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.quota.cohort import Cohorts
from apportion.scheduling.walk.turns import Turns
from tests.observedcluster import request
from tests.quota.tenants import GPUS, cluster, leave, namespace, quota, wait


def flood(world: object, *teams: str, count: int = 20) -> None:
    """Let claims of each tenant wait, one tenant after the other."""
    for turn, team in enumerate(teams):
        for number in range(count):
            wait(world, team, f"{team}-{number}", at=turn * count + number)  # type: ignore[arg-type]


def shares(places: object) -> Counter[str]:
    """Return how many claims of each tenant are served."""
    return Counter(name.partition("-")[0] for name in places)  # type: ignore[attr-defined]


def name(queued: Queued) -> str:
    """Return the name of its first claim."""
    return demands_of(queued)[0].claims[0].name


@pytest.mark.slow
async def test_devices_are_shared_by_weight_no_matter_who_came_first(silent: Client) -> None:
    """Weights of 1, 2 and 3 of twelve GPUs, in one pass, also when the last are placed together."""
    for count in (20, 100):
        world = cluster(12, "a", "b", "c")
        for weight, team in enumerate("abc", start=1):
            quota(world, team, cohort="x", weight=weight)
        flood(world, "a", "b", "c", count=count)
        world.cycle(silent).once()
        assert shares(world.places()) == {"a": 2, "b": 4, "c": 6}


async def test_who_has_less_goes_first(silent: Client) -> None:
    """What the others have had counts, though they wait longer."""
    world = cluster(8, "a", "b")
    for team in "ab":
        quota(world, team, cohort="x")
    flood(world, "a", count=6)
    cycle = world.cycle(silent)
    cycle.once()
    assert shares(world.places()) == {"a": 6}
    flood(world, "b", count=6)
    for number in range(6, 10):
        wait(world, "a", f"a-{number}")
    leave(world, "a", "a-0")
    leave(world, "a", "a-1")
    cycle.once()
    assert shares(world.places()) == {"a": 4, "b": 4}


async def test_what_is_guaranteed_goes_before_what_is_borrowed_whatever_the_priority(silent: Client) -> None:
    """Tenants choose the priority of their pods themselves."""
    world = cluster(6, "a", "b")
    quota(world, "a", cohort="x")
    quota(world, "b", cohort="x", guaranteed=4)
    for number in range(8):
        wait(world, "a", f"a-{number}", priority=1000, at=number)
        wait(world, "b", f"b-{number}", at=100 + number)
    world.cycle(silent).once()
    assert shares(world.places()) == {"a": 2, "b": 4}


async def test_beyond_the_guarantees_priority_goes_before_shares(silent: Client) -> None:
    """Within a priority the smaller share goes first."""
    world = cluster(4, "a", "b")
    for team in "ab":
        quota(world, team, cohort="x")
    for number in range(4):
        wait(world, "a", f"a-{number}", priority=5 if number < 3 else 0, at=number)
        wait(world, "b", f"b-{number}", at=100 + number)
    world.cycle(silent).once()
    assert shares(world.places()) == {"a": 3, "b": 1}


async def test_namespaces_of_one_quota_take_turns(silent: Client) -> None:
    """They have one share together."""
    world = cluster(6, "a", "b")
    namespace(world, "a2", team="a")
    for team in "ab":
        quota(world, team, cohort="x")
    flood(world, "a", "a2", "b")
    world.cycle(silent).once()
    served = Counter(
        claim.namespace for claim in world.snapshot.claims.values() if claim.name in world.places()
    )
    assert served["b"] == 3
    assert {served["a"], served["a2"]} == {1, 2}


async def test_namespaces_without_a_cohort_keep_their_turns(silent: Client) -> None:
    """A cohort shares the places that turns give to its namespaces, and takes none of others."""
    world = cluster(9, "a", "b", "c")
    quota(world, "a", cohort="x", weight=2)
    quota(world, "b", cohort="x", weight=1)
    quota(world, "c", limit=8)
    flood(world, "a", "b", "c")
    world.cycle(silent).once()
    assert shares(world.places()) == {"a": 4, "b": 2, "c": 3}


async def test_a_demand_for_what_is_left_does_not_stand_behind_one_for_what_is_borrowed(
    silent: Client,
) -> None:
    """The tenant has had more GPUs than are guaranteed; its NPU is guaranteed all the same."""
    world = cluster(4, "a", "b")
    world.device_class("npu", 'device.driver == "npu.apportion.dev"')
    world.device_class("gpu", 'device.driver == "gpu.apportion.dev"')
    npu = {"name": "npus", "deviceClass": "npu"}
    quota(world, "a", GPUS | {"guaranteed": 1}, npu | {"guaranteed": 1}, cohort="x")
    quota(world, "b", GPUS, npu, cohort="x")
    raw = world.slice("n1", "n1-npus", {"devices": [{"name": "npu-0"}]}, 1)
    raw["spec"]["driver"] = "npu.apportion.dev"
    world.see(SLICES, raw)
    for number in range(3):
        wait(world, "a", f"a-{number}", at=number)
    cycle = world.cycle(silent)
    cycle.once()
    wait(world, "a", "a-more", at=10)
    wait(world, "b", "b-npu", request("npu"), at=11)
    wait(world, "a", "a-npu", request("npu"), at=12)
    cycle.once()
    assert {"a-npu", "a-more"} <= world.places().keys()
    assert "b-npu" not in world.places()


def test_who_has_several_turns_in_a_pass_counts_once() -> None:
    """A group is decided in turns; what it asks for was added to what its quota takes at each of them, and stayed there."""
    world = cluster(8, "a", "b")
    for team in "ab":
        quota(world, team, cohort="x")
    wait(world, "a", "a-many", count=3, at=0)
    wait(world, "a", "a-one", at=1)
    wait(world, "b", "b-two", count=2, at=2)
    wait(world, "b", "b-one", at=3)
    charging = Charging(world.snapshot, world.clock)
    charging.follow()
    waiting, _ = waiting_demands(world.snapshot)
    turns = Turns(world.snapshot.managed, Cohorts(charging, lambda _: 8 * NANO, shares=False))
    [*turns.fill(waiting, (), frozenset())]
    first = turns.pop()
    assert name(first) == "a-many"
    others = [turns.pop() for _ in range(3)]
    for each in others:
        turns.settle(each, refused=True)
    for _ in range(3):
        turns.add(first, later=True)
        assert turns.pop() is first
    turns.settle(first, refused=True)
    for each in others:
        turns.add(each, later=True)
    assert [name(turns.pop()) for _ in range(3)] == ["b-two", "a-one", "b-one"]


async def test_a_quota_in_a_cohort_of_its_own_name_is_served_as_any_other(silent: Client) -> None:
    """A cohort is a name, so nothing can point to itself."""
    world = cluster(4, "a", "b")
    quota(world, "a", cohort="a", limit=3)
    flood(world, "a", "b")
    world.cycle(silent).once()
    assert shares(world.places()) == {"a": 2, "b": 2}


async def test_a_quota_whose_resources_change_within_a_pass_ends_nothing(silent: Client) -> None:
    """A pass is done in slices: those that come behind one another are compared by the resources that there are then."""
    world = cluster(8, "a", "b")
    world.policy(queue={"mostReserved": 0})
    for team in "ab":
        quota(world, team, cohort="x", guaranteed=1)
    for number in range(8):
        wait(world, "b", f"b-{number}", at=number)
    cycle = world.cycle(silent)
    cycle.once()
    # So many that they are not planned together; they are refused alike, so that one comes behind the other.
    for number in range(100):
        wait(world, "a", f"a-{number}", at=number)
    cycle.once()
    for number in range(8):
        leave(world, "b", f"b-{number}")
    nics = {"name": "nics", "deviceClass": "nic"}
    for work in cycle._pass(longest=math.inf, evaluates=False):
        if work is not None:
            work()
        if len(world.places()) == 1:
            quota(world, "a", GPUS | {"guaranteed": 1}, nics, cohort="x")
    assert shares(world.places()) == {"a": 8}
