"""Thousands wait in one namespace that all ask for something else: who stands back behind them is found out as fast as behind one."""

from functools import partial

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.quota.bounds import Bounds
from apportion.quota.charge import Charge
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.pace import AT_ONCE
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.charging import MOST_LEARNT, Charging
from apportion.scheduling.quota.waitingamounts import WaitingAmounts
from apportion.scheduling.walk.turns import Turns
from tests.observedcluster import Json, ObservedCluster, request
from tests.quota.tenants import cluster, quota, wait
from tests.scheduling.longeststep import longest_step
from tests.steps import Steps, steps


def asking(world: ObservedCluster, kinds: int, count: int) -> list[Json]:
    """Let so many pods wait in namespace `b`, each with a request that no other has, for so many GPUs."""
    asked = (request("gpu", name=f"r{number}", count=count) for number in range(kinds))
    return [wait(world, "b", f"b{number}", each, at=number % 3600) for number, each in enumerate(asked)]


def borrowing(world: ObservedCluster, client: Client, guaranteed: int = 2) -> tuple[Admission, WaitingDemand]:
    """Return the quotas of two tenants, of which `b` has a guarantee, and a demand of `a` that borrows."""
    quota(world, "a", cohort="x")
    quota(world, "b", cohort="x", guaranteed=guaranteed)
    wait(world, "a", "mine")
    quotas = world.cycle(client).quotas
    demands, _ = waiting_demands(world.snapshot)
    [*quotas.begin((), demands)]
    [mine] = [each for each in demands if each.claims[0].namespace == "a"]
    assert not quotas.stands_back((mine,))
    return quotas, mine


async def test_it_costs_as_much_however_many_kinds_wait(silent: Client) -> None:
    """After each allocation of the tenant all that it waits for was compared anew: for 20,000 pods half a second, in which nobody else ran."""
    counts = []
    for kinds in (4, 40):
        world = cluster(8, "a", "b")
        asking(world, kinds, 3)
        quotas, mine = borrowing(world, silent)
        quotas.charging.usage.put("used", "b", (Charge("gpu", "d"),))
        counts.append(steps(partial(quotas.stands_back, (mine,))))
    assert counts[0] == counts[1]


async def test_what_was_learnt_of_one_kind_is_looked_at_for_that_one(silent: Client) -> None:
    """Its requests got one device where three were asked for at least, so that it stays within the guarantee, as long as that is free."""
    counts = []
    for kinds in (4, 40):
        world = cluster(8, "a", "b")
        [first, *_] = asking(world, kinds, 3)
        quotas, mine = borrowing(world, silent)
        alike = request("gpu", name="r0", count=3)
        world.allocate(world.claim("got", alike, namespace="b"), "n1", "gpu-0")
        quotas.charging.follow()
        counts.append(steps(partial(quotas.stands_back, (mine,))))
        assert quotas.stands_back((mine,))
        world.allocate(first, "n1", "gpu-1")
        quotas.charging.follow()
        assert not quotas.stands_back((mine,))
    assert counts[0] == counts[1]


async def test_what_they_take_is_found_out_in_steps(unanswered: Client) -> None:
    """At the first pass in which devices may be reserved for who borrows, and after the quota changed."""
    world = cluster(4, "a", "b")
    world.policy(queue={"reserveAfter": "0s"})
    world.allocate(world.claim("old", request("gpu", count=4)), "n1", *(f"gpu-{card}" for card in range(4)))
    asking(world, 3 * AT_ONCE, 3)
    borrowing(world, unanswered)
    cycle = world.cycle(unanswered)
    for guaranteed in (1, 2):
        assert longest_step(cycle, Charging.expected) <= AT_ONCE
        quota(world, "b", cohort="x", guaranteed=guaranteed)


async def test_what_is_learnt_within_a_pass_of_what_thousands_ask_for_is_taken_in_in_steps(
    unanswered: Client,
) -> None:
    """Each of 5,000 pods had another claim beside one that all ask alike: it took a quarter of a second in one piece, for who asked next whether it stands back."""
    world = cluster(1, "a", "b")
    world.policy(queue={"reserveAfter": "0s"})
    old = world.claim("old")
    world.allocate(old, "n1", "gpu-0")
    for number in range(3 * AT_ONCE):
        names = f"x{number}", f"r{number}"
        for name in names:
            asked = request("gpu", name="x" if name == names[0] else name)
            metadata = {"name": name, "namespace": "b"}
            world.see(CLAIMS, {"metadata": metadata, "spec": {"devices": {"requests": [asked]}}})
        world.pod(f"p{number}", *names, namespace="b")
    quota(world, "a", cohort="x")
    quota(world, "b", cohort="x", guaranteed=9)
    cycle = world.cycle(unanswered)
    cycle.once()
    wait(world, "b", "first", request("gpu", name="x"), priority=9)
    wait(world, "a", "mine", request("gpu", name="mine"), priority=8)
    world.gone_claim("old")
    assert longest_step(cycle, WaitingAmounts._look) <= AT_ONCE
    assert world.places() == {"first": "n1"}
    assert cycle.quotas.claimants.ahead


@pytest.mark.slow
async def test_it_is_known_for_as_many_as_wait(silent: Client) -> None:
    """Of more than 4,096 kinds it was found out anew in each pass, 64 pods at a time: 0.4 s for those with 32 requests of eight alternatives."""
    world = cluster(8, "a", "b")
    asking(world, MOST_LEARNT + 1, 3)
    quotas, _ = borrowing(world, silent)
    demands, _ = waiting_demands(world.snapshot)
    turns = Turns(world.snapshot.managed, quotas.cohorts())
    with Steps(Bounds._found) as counted:
        [*turns.fill(demands, (), frozenset())]
    assert counted.count == 0
