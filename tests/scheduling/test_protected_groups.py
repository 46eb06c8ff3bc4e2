"""A group of pods goes as a whole or not at all: what protects one of them protects all, on whatever node it is."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import POD_GROUPS
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import GROUP, Trial, holds, trial, waits


def member(least: int = 2) -> dict[str, dict[str, str]]:
    """Return the metadata of a pod whose group needs so many pods."""
    return {"labels": {GROUP: "g"}, "annotations": {f"{GROUP}-min-count": str(least)}}


def calm(world: ObservedCluster, name: str, node: str) -> None:
    """Let a pod of a group have a GPU by a policy that lets nobody go."""
    world.device_class("calm")
    world.policy("q", classes=("calm",))
    holds(world, name, 0, node=node, metadata=member())
    claim = world.claim(name, request("calm", count=1), namespace="team")
    uid = next(each.uid for each in world.snapshot.pods.values() if each.name == name)
    user = {"resource": "pods", "name": name, "uid": uid}
    world.allocate(claim, node, "gpu-0", timestamp=world.time(-3600.0), reservedFor=[user])


@pytest.mark.parametrize("protected", ["first", "second"])
async def test_where_a_budget_protects_a_pod_of_a_group_the_next_best_goes(
    unanswered: Client, protected: str
) -> None:
    """A pod of higher priority, which is lower than that of the one that waits: it was never asked about, and the group every few seconds."""
    made = trial(unanswered, 1, nodes=3)
    holds(made.world, "first", 0, node="n1", metadata=member())
    holds(made.world, "second", 0, node="n2", metadata=member())
    holds(made.world, "other", 0, node="n3", priority=1)
    made.evictor.protected = (protected,)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == ["other"]


@pytest.mark.parametrize("policy", ["gang", "basic"])
async def test_what_a_podgroup_object_says_a_group_needs_goes_as_a_whole_or_not_at_all(
    unanswered: Client, policy: str
) -> None:
    """One of its two pods was evicted, and the other one computed nothing without it. Pods of policy `basic` need each other not."""
    made = trial(unanswered, 1, nodes=2)
    says = {"gang": {"gang": {"minCount": 2}}, "basic": {"basic": {}}}[policy]
    spec = {"schedulingPolicy": says}
    made.world.see(POD_GROUPS, {"metadata": {"name": "train", "namespace": "team"}, "spec": spec})
    for name, node, priority in (("first", "n1", 0), ("second", "n2", 9)):
        group = {"podGroupName": "train"}
        holds(made.world, name, 0, node=node, priority=priority, schedulingGroup=group)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == ([] if policy == "gang" else ["first"])


async def test_a_member_that_has_just_got_its_devices_keeps_its_group(unanswered: Client) -> None:
    """`minRuntime` holds for each pod that goes."""
    made = trial(unanswered, 1, nodes=2, minRuntime="10m")
    made.world.node("n2", cpu="64", host="n2")
    holds(made.world, "first", 0, node="n1", metadata=member())
    holds(made.world, "second", 0, node="n2", metadata=member(), age=5.0)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == []


async def test_a_member_whose_policy_lets_nobody_go_keeps_its_group(unanswered: Client) -> None:
    """That the quota of its namespace gives back what is guaranteed to others changes nothing: nothing is guaranteed here."""
    made = trial(unanswered, 1, nodes=2)
    for team in ("team", "urgent"):
        namespace(made.world, team, team=team)
    quota(made.world, "team", cohort="x", reclaims=True, guaranteed=0)
    holds(made.world, "first", 0, node="n1", metadata=member())
    calm(made.world, "second", "n2")
    waits(made.world, "high", 1, priority=5, team="urgent")
    await made.passes(4)
    assert made.evicted == []


def three(client: Client, protection: str, priority: int) -> Trial:
    """Return three pods of a group that needs two, one of them protected on a node of its own, and a pod of a priority with one more GPU."""
    minimum = {"minRuntime": "10m"} if protection == "young" else {}
    made = trial(client, 2, nodes=3, **minimum)
    for number in range(2):
        holds(made.world, f"member-{number}", number, metadata=member())
    holds(made.world, "other", 0, 1, node="n3", priority=priority)
    if protection == "calm":
        calm(made.world, "kept", "n2")
    else:
        holds(made.world, "kept", 0, node="n2", metadata=member(), age=5.0 if minimum else 3600.0)
    if protection == "budget":
        made.evictor.protected = ("kept",)
    holds(made.world, "beside", 1, node="n2", priority=9)
    return made


@pytest.mark.parametrize("protection", ["young", "calm", "budget"])
async def test_of_a_group_with_a_protected_pod_only_those_go_that_it_can_spare(
    unanswered: Client, protection: str
) -> None:
    """One of three, of which two are needed; where two would have to go somebody else does."""
    made = three(unanswered, protection, priority=1)
    waits(made.world, "one", 1, priority=5)
    await made.passes(4)
    assert len(made.evicted) == 1
    assert made.evicted[0].startswith("member")
    made = three(unanswered, protection, priority=1)
    waits(made.world, "two", 2, priority=5)
    await made.passes(6)
    assert made.evicted == ["other"]
