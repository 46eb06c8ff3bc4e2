"""Pods that share a claim come and go while others are evicted for it: each claim gets what it asks for, and passes go on."""

from functools import partial

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.heldclaims import HeldClaims
from apportion.scheduling.preemption.holders import Holders
from apportion.scheduling.preemption.runninggroups import RunningGroups
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.evicting import Trial, ends, holds, joins, trial, waits, written
from tests.steps import steps

ON = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}


def also_waits(world: ObservedCluster, name: str, shared: str, gpus: int) -> None:
    """Let a pod wait for a shared claim, and for so many GPUs of its own."""
    world.claim(name, request("gpu", count=gpus), namespace="team")
    world.pod(name, shared, name, gates=(GATE,), spec={"priority": 5}, namespace="team")


def goes(world: ObservedCluster, name: str) -> None:
    """Show that such a pod was deleted, with its own claim."""
    for kind in (PODS, CLAIMS):
        uid = f"uid-team-{kind.plural}-{name}"
        world.gone(kind, {"metadata": {"name": name, "namespace": "team", "uid": uid}})


def has(made: Trial) -> dict[str, int]:
    """Return how many devices each claim was given."""
    snapshot = made.world.snapshot
    found = {claim.name: snapshot.allocation(claim) for claim in snapshot.claims.values()}
    return {name: len(each.results) for name, each in found.items() if each is not None}


async def evicting(client: Client) -> Trial:
    """Return a cluster of four GPUs that the pod `low` has, which is being evicted for two pods that share a claim."""
    made = trial(client, 4)
    holds(made.world, "low", 0, 1, 2, 3)
    waits(made.world, "shared", 1, 5)
    also_waits(made.world, "with-three", "shared", 3)
    await made.passes()
    assert made.evicted == ["low"]
    return made


async def test_a_pod_that_joins_is_served_with_those_for_whom_others_went(unanswered: Client) -> None:
    """Once a zip of unequal length ended the operator."""
    made = trial(unanswered, 2)
    holds(made.world, "low", 0, 1)
    waits(made.world, "shared", 1, 5)
    await made.passes()
    also_waits(made.world, "zz-joins", "shared", 1)
    ends(made.world, "low")
    await made.passes()
    assert has(made) == {"shared": 1, "zz-joins": 1}


async def test_those_that_stay_are_served_when_one_of_them_goes(unanswered: Client) -> None:
    """It ended the operator, too."""
    made = await evicting(unanswered)
    goes(made.world, "with-three")
    ends(made.world, "low")
    await made.passes()
    assert has(made) == {"shared": 1}


async def test_a_pod_in_the_place_of_another_gets_what_its_own_claim_asks_for(unanswered: Client) -> None:
    """And not the three devices of the former one."""
    made = await evicting(unanswered)
    goes(made.world, "with-three")
    also_waits(made.world, "with-two", "shared", 2)
    ends(made.world, "low")
    made.cycle.once()
    assert has(made) == {"shared": 1, "with-two": 2}


async def test_a_pod_that_shares_the_claim_of_a_member_is_served_with_the_group(unanswered: Client) -> None:
    """The claims of a group are handed to its members by their number."""
    made = trial(unanswered, 3)
    holds(made.world, "low", 0, 1, 2)
    joins(made.world, "a", "b")
    await made.passes()
    also_waits(made.world, "zz-joins", "a", 1)
    ends(made.world, "low")
    await made.passes()
    assert has(made) == {"a": 1, "b": 1, "zz-joins": 1}


async def test_a_pod_that_joins_with_a_claim_of_smaller_uid_is_served_with_those_for_whom_others_went(
    unanswered: Client,
) -> None:
    """The smallest UID of its claims is what a demand is known by: it passed for gone, and the evictions for in vain."""
    made = trial(unanswered, 2)
    holds(made.world, "low", 0, 1)
    waits(made.world, "shared", 1, 5)
    await made.passes()
    also_waits(made.world, "joins", "shared", 1)
    await made.passes()
    ends(made.world, "low")
    await made.passes()
    assert has(made) == {"shared": 1, "joins": 1}
    assert "PreemptionInVain" not in {reason for _, reason in made.world.warned}


@pytest.mark.parametrize("fails", ["a", "b"])
async def test_what_is_kept_for_a_pod_is_so_until_each_of_its_claims_is_written(
    unanswered: Client, fails: str
) -> None:
    """One claim is written and the other write fails: the rest waits under another key, and another pod had its device."""
    made = trial(unanswered, 2)
    world = made.world
    world.policy("p", preemption=ON, queue={"mostReserved": 0, "order": "FIFO"})
    holds(world, "low", 0, 1)
    waits(world, "aa", 1, 1)
    for name in ("a", "b"):
        world.claim(name, request("gpu"), namespace="team")
    world.pod("high", "a", "b", gates=(GATE,), spec={"priority": 5}, namespace="team")
    await made.passes()
    ends(world, "low")
    made.cycle.once()
    assert has(made) == {"a": 1, "b": 1}
    for name in ("a", "b"):
        [claim] = [each for each in world.snapshot.claims.values() if each.name == name]
        assumed = world.snapshot.assumed.get(claim.uid)
        assert assumed is not None
        world.snapshot.forget(assumed) if name == fails else written(world, claim, assumed.allocation)
    for _ in range(3):
        made.cycle.once()
    assert has(made) == {"a": 1, "b": 1}
    assert "PreemptionInVain" not in {reason for _, reason in world.warned}


async def test_nobody_is_evicted_for_devices_that_the_pod_itself_shares(unanswered: Client) -> None:
    """What a pod with a lower priority has by a claim of both stays allocated, or is needed once more, when that pod is gone."""
    made = trial(unanswered, 1)
    holds(made.world, "low", 0)
    also_waits(made.world, "high", "low", 1)
    await made.passes()
    assert made.evicted == []


async def test_who_may_go_is_found_as_fast_however_many_pods_wait_for_the_same_claims(
    unanswered: Client,
) -> None:
    """Each claim of a node had all pods looked at that name it, behind their gates: 0.05 s for 5,000 and 64 claims."""
    counts = []
    for many in (10, 100):
        made = trial(unanswered, 1)
        holds(made.world, "low", 0)
        for number in range(many):
            made.world.pod(f"next-{number}", "low", gates=(GATE,))
        held = HeldClaims(
            made.world.snapshot,
            made.world.seconds,
            "apportion-operator",
            Guarantees(made.world.snapshot, made.cycle.quotas),
        )
        holders, groups = Holders(held), RunningGroups(held, ())
        claims = [*made.world.snapshot.claims.values()]
        found = [*holders._holders("n1", claims, groups)]
        assert [pod.name for each in found for pod in each.pods] == ["low"]
        counts.append(steps(partial(list, holders._holders("n1", claims, groups))))
    assert counts[0] == counts[1]
