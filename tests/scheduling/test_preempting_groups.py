"""Pods go for a group of higher priority: for all of its members together, or nobody goes."""

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.preemption.groupvictims import MOST_OTHERS
from tests.observedcluster import request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import (
    GROUP,
    Trial,
    ends,
    holds,
    joins,
    loses_its_devices,
    mark_ending,
    trial,
    waits,
)


def full(client: Client, nodes: int, gpus: int = 1, **preemption: str) -> Trial:
    """Return nodes on which a pod of priority 0 has each GPU: `low-<node>-<gpu>`."""
    made = trial(client, gpus, nodes=nodes, **preemption)
    for node in range(1, nodes + 1):
        for gpu in range(gpus):
            holds(made.world, f"low-{node}-{gpu}", gpu, node=f"n{node}")
    return made


async def test_all_members_of_a_group_get_what_pods_of_lower_priority_have(unanswered: Client) -> None:
    """One on each of two nodes; what is free first is kept until all of it is, though another pod waits for it."""
    made = full(unanswered, 2)
    waits(made.world, "patient", 1)
    joins(made.world, "a", "b")
    await made.passes()
    assert sorted(made.evicted) == ["low-1-0", "low-2-0"]
    ends(made.world, "low-1-0")
    await made.passes()
    assert made.world.places() == {"low-2-0": "n2"}
    ends(made.world, "low-2-0")
    await made.passes()
    assert made.world.places() == {"a": "n1", "b": "n2"} or made.world.places() == {"a": "n2", "b": "n1"}
    assert {("a", "Preempting"), ("b", "Preempting"), ("low-1-0", "Preempted")} <= set(made.world.warned)


async def test_nobody_goes_unless_all_members_would_have_devices_then(unanswered: Client) -> None:
    """Two GPUs are not enough for three."""
    made = full(unanswered, 2)
    joins(made.world, "a", "b", "c")
    await made.passes(20)
    assert made.evicted == []


async def test_what_is_free_is_used_and_only_what_is_missing_is_taken(unanswered: Client) -> None:
    """One GPU is free, which a group of two cannot use alone."""
    made = full(unanswered, 1, 2)
    made.world.node("n2", cpu="64")
    made.world.slice("n2", "n2-devices", {"devices": [{"name": "gpu-0"}]}, 1)
    joins(made.world, "a", "b")
    await made.passes()
    [gone] = made.evicted
    ends(made.world, gone)
    await made.passes()
    assert sorted(made.world.places().values()) == ["n1", "n1", "n2"]


@pytest.mark.slow
async def test_the_dry_run_of_all_comes_first_and_others_go_where_one_is_protected(
    unanswered: Client,
) -> None:
    """A PodDisruptionBudget on one of two nodes: the third one gives the second GPU."""
    made = full(unanswered, 3)
    made.evictor.protected = ["low-1-0"]
    joins(made.world, "a", "b")
    await made.passes(8)
    assert sorted(made.evicted) == ["low-2-0", "low-3-0"]


@pytest.mark.slow
async def test_nobody_goes_where_a_budget_protects_one_that_is_needed(unanswered: Client) -> None:
    """The others would go in vain."""
    made = full(unanswered, 2)
    made.evictor.protected = ["low-2-0"]
    joins(made.world, "a", "b")
    await made.passes(20)
    assert made.evicted == []


@pytest.mark.slow
async def test_a_group_takes_only_its_least_number_and_nothing_once_that_runs(unanswered: Client) -> None:
    """Two of three are enough: the third one waits for what comes free."""
    made = full(unanswered, 3)
    joins(made.world, "a", "b", "c", least=2)
    await made.passes()
    assert len(made.evicted) == 2
    ends(made.world, *made.evicted)
    await made.passes(20)
    assert len({"a", "b", "c"} & made.world.places().keys()) == 2
    assert len(made.evicted) == 2


@pytest.mark.parametrize(("own", "gone"), [((5, 5), 2), ((5, 4), 0), ((3, 3), 0)])
async def test_victims_have_a_lower_priority_than_all_pods_of_a_group_which_have_one(
    unanswered: Client, own: tuple[int, int], gone: int
) -> None:
    """As a victim a group has its highest priority; if as a preemptor it had another one, two could take turns."""
    made = trial(unanswered, 1, nodes=2)
    for node in (1, 2):
        holds(made.world, f"low-{node}", 0, node=f"n{node}", priority=3)
    for name, priority in zip("ab", own, strict=True):
        joins(made.world, name, priority=priority, least=2)
    await made.passes(20)
    assert len(made.evicted) == gone


async def test_a_member_that_has_just_got_its_devices_stays_and_so_do_all(unanswered: Client) -> None:
    """`minRuntime` of one of two that are needed."""
    made = trial(unanswered, 1, nodes=2, minRuntime="10m")
    holds(made.world, "old", 0, node="n1")
    holds(made.world, "young", 0, node="n2", age=60)
    joins(made.world, "a", "b")
    await made.passes(20)
    assert made.evicted == []


async def test_victims_of_a_group_that_has_to_be_in_one_rack_are_of_one(unanswered: Client) -> None:
    """The oldest pods go, because the others are in two racks."""
    made = trial(unanswered, 1, nodes=4)
    for number, rack in enumerate("xyzz", start=1):
        made.world.node(f"n{number}", cpu="64", rack=rack)
        holds(made.world, f"low-{number}", 0, node=f"n{number}", age=3600.0 * number)
    joins(made.world, "a", "b", **{f"{GROUP}-topology": "rack", f"{GROUP}-topology-mode": "Required"})
    await made.passes()
    assert sorted(made.evicted) == ["low-3", "low-4"]


async def test_a_group_takes_back_what_is_guaranteed_to_its_quota(unanswered: Client) -> None:
    """Of a borrower of higher priority, where nobody goes by priority; it keeps what is guaranteed to itself."""
    made = trial(unanswered, 1, nodes=3, mode="Never")
    for team, guaranteed in (("a", 2), ("b", 1)):
        namespace(made.world, team, team=team)
        quota(made.world, team, cohort="x", reclaims=True, guaranteed=guaranteed)
    for node in (1, 2, 3):
        holds(made.world, f"b{node}", 0, node=f"n{node}", team="b", priority=9)
    joins(made.world, "a1", "a2", "a3", team="a", priority=0)
    await made.passes(20)
    assert made.evicted == []
    ends(made.world, "a3")
    joins(made.world, "a1", "a2", team="a", priority=0)
    await made.passes(20)
    assert len(made.evicted) == 2


async def test_the_next_leader_keeps_what_ends_for_the_group_and_evicts_nobody(unanswered: Client) -> None:
    """It knows nothing of the evictions, and finds pods that end; a small pod would take the first GPU at once."""
    made = full(unanswered, 2, after="1h")
    for name in ("low-1-0", "low-2-0"):
        mark_ending(made.world, name)
    joins(made.world, "a", "b")
    await made.passes()
    waits(made.world, "small", 1, priority=9)
    ends(made.world, "low-1-0")
    await made.passes()
    assert "small" not in made.world.places()
    ends(made.world, "low-2-0")
    await made.passes()
    assert made.world.places().keys() == {"a", "b"}
    assert made.evicted == []


async def test_what_was_kept_is_free_when_a_member_is_gone(unanswered: Client) -> None:
    """The group is incomplete: others get it, and nobody goes for this namespace for a while."""
    made = full(unanswered, 2, cooldown="10m")
    waits(made.world, "patient", 1)
    joins(made.world, "a", "b")
    await made.passes()
    ends(made.world, "low-1-0", "b")
    await made.passes(3)
    assert made.world.places() == {"low-2-0": "n2", "patient": "n1"}
    assert ("a", "PreemptionInVain") in made.world.warned


async def test_evictions_for_a_group_that_no_scheduler_starts_were_in_vain(unanswered: Client) -> None:
    """One member loses what it was given before it is bound: nobody else goes for this namespace for a while."""
    made = full(unanswered, 3, cooldown="10h")
    joins(made.world, "a", "b")
    await made.passes()
    ends(made.world, *made.evicted)
    await made.passes(3)
    assert {"a", "b"} < made.world.places().keys()
    loses_its_devices(made.world, "a")
    waits(made.world, "next", 1, priority=4)
    await made.passes(20)
    assert len(made.evicted) == 2
    assert ("a", "PreemptionInVain") in made.world.warned


@pytest.mark.parametrize("protected", [[], ["low-2-0"]])
async def test_a_group_that_lost_a_running_pod_meanwhile_gets_nothing(
    unanswered: Client, protected: list[str]
) -> None:
    """Three are needed, of which one ran when the others of its group had pods evicted, or others chosen: two are not enough."""
    made = full(unanswered, 4)
    holds(
        made.world,
        "ran",
        node="n1",
        priority=5,
        metadata={"labels": {GROUP: "g"}, "annotations": {f"{GROUP}-min-count": "3"}},
    )
    made.evictor.protected_late = protected
    joins(made.world, "a", "b", least=3)
    await made.passes(1)
    [first, *_] = made.evicted
    ends(made.world, "ran")
    await made.passes(3)
    ends(made.world, *made.evicted)
    await made.passes(3)
    assert first
    assert not {"a", "b"} & made.world.places().keys()


async def test_a_group_whose_first_members_change_has_nobody_evicted_twice(unanswered: Client) -> None:
    """Two of three are enough. The pod of the first index, which is made anew meanwhile, is among the first two from then on."""
    made = full(unanswered, 4)
    joins(made.world, "b", "c", least=2)
    await made.passes()
    gone = list(made.evicted)
    assert len(gone) == 2
    joins(made.world, "a", least=2)
    await made.passes(4)
    assert made.evicted == gone
    ends(made.world, *gone)
    await made.passes(4)
    assert len({"a", "b", "c"} & made.world.places().keys()) == 2
    assert made.evicted == gone


@pytest.mark.slow
async def test_a_free_node_behind_many_full_ones_serves_a_member_of_a_group(unanswered: Client) -> None:
    """Of nodes from which nobody goes 256 are looked at: always the same, without the only one with a free device."""
    made = trial(unanswered, 1, nodes=MOST_OTHERS + 4)
    first, *full, _ = sorted(node.name for node in made.world.snapshot.nodes.values())
    for name in full:
        claim = made.world.claim(f"foreign-{name}", request("gpu"))
        made.world.allocate(claim, name, "gpu-0", by="somebody")
    holds(made.world, "low", 0, node=first)
    joins(made.world, "a", "b")
    await made.passes(3)
    assert made.evicted == ["low"]
