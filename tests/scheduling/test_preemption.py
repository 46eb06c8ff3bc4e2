"""Pods go for others of higher priority: who, when, what becomes of their devices, and when nobody goes any more."""

from dataclasses import dataclass

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS, QUOTAS
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.eligibility import AnyOf, Eligibility, Holder, LowerPriority
from apportion.scheduling.waiting import WaitingDemand
from tests.clock import Clock
from tests.observedcluster import request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import (
    ends,
    holds,
    loses_its_devices,
    mark_ending,
    starts,
    trial,
    waits,
)


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


# Who is protected. --------------------------------------------------------------------------------------------------


async def test_a_pod_that_a_budget_protects_stays_and_the_next_best_goes(unanswered: Client) -> None:
    """Its name may be read in its own namespace, with the budget's."""
    made = trial(unanswered, 2)
    made.evictor.protected = ["cheap"]
    holds(made.world, "cheap", 0)
    holds(made.world, "dear", 1, priority=2)
    waits(made.world, "high", 1, priority=5)
    await made.passes(3)
    assert made.evicted == ["dear"]
    [text] = {
        text for name, reason, text in made.world.messages if (name, reason) == ("high", "PreemptionBlocked")
    }
    assert "pod cheap is not evicted: PodDisruptionBudget keep" in text


async def test_nobody_goes_where_not_all_that_have_to_may_go(unanswered: Client) -> None:
    """One of two is protected: the other one would go in vain."""
    made = trial(unanswered, 2)
    made.evictor.protected = ["two"]
    holds(made.world, "one", 0)
    holds(made.world, "two", 1)
    waits(made.world, "high", 2, priority=5)
    await made.passes(10)
    assert made.evicted == []


async def test_a_refusal_midway_stops_and_what_was_freed_counts_for_the_next_choice(
    unanswered: Client,
) -> None:
    """The budget shrank between the questions: of the rest one more goes, not two."""
    made = trial(unanswered, 3)
    made.evictor.protected_late = ["two"]
    holds(made.world, "one", 0)
    holds(made.world, "two", 1)
    holds(made.world, "three", 2, priority=2)
    waits(made.world, "high", 2, priority=5)
    await made.passes(3)
    assert made.evicted == ["one", "three"]
    ends(made.world, "one", "three")
    await made.passes()
    assert made.world.places()["high"] == "n1"


async def test_claims_of_another_policy_or_without_a_pod_are_not_taken_back(unanswered: Client) -> None:
    """Both sides opt in; an Immediate claim keeps its devices between pods, so that the end of a pod frees nothing."""
    made = trial(unanswered, 2)
    made.world.device_class("kept")
    holds(made.world, "immediate", 0)
    raw = {"metadata": {"name": "immediate", "namespace": "team", "annotations": {GATE: "Immediate"}}}
    raw["metadata"]["uid"] = made.world.snapshot.claim("team", "immediate").uid  # type: ignore[union-attr]
    raw["spec"] = {"devices": {"requests": [request("gpu")]}}
    made.world.allocate(raw, "n1", "gpu-0")
    holds(made.world, "other", 1)
    other = {"metadata": {"name": "other", "namespace": "team"}}
    other["metadata"]["uid"] = made.world.snapshot.claim("team", "other").uid  # type: ignore[union-attr]
    other["spec"] = {"devices": {"requests": [request("kept")]}}
    made.world.allocate(other, "n1", "gpu-1")
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == []


async def test_pods_that_share_a_claim_go_together_or_not_at_all(unanswered: Client) -> None:
    """One of higher priority protects the other; without it both go."""
    made = trial(unanswered, 1)
    holds(made.world, "shared", 0)
    beside = made.world.pod("beside", "shared", spec={"nodeName": "n1", "priority": 9})
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == []
    beside["spec"]["priority"] = 1
    made.world.see(PODS, beside)
    await made.passes(12)
    assert sorted(made.evicted) == ["beside", "shared"]


async def test_a_group_goes_as_a_whole_when_it_would_be_too_small(unanswered: Client) -> None:
    """What is left of it could do nothing; its pod on the other node goes, too."""
    made = trial(unanswered, 1, nodes=2)
    own = {
        "labels": {"apportion.dev/pod-group": "g"},
        "annotations": {"apportion.dev/pod-group-min-count": "2"},
    }
    for number in (1, 2):
        holds(made.world, f"member-{number}", 0, node=f"n{number}", metadata=own)
    waits(made.world, "high", 1, priority=5)
    await made.passes(3)
    assert sorted(made.evicted) == ["member-1", "member-2"]


async def test_nobody_goes_for_a_pod_of_a_group_yet(unanswered: Client) -> None:
    """The members wait as before."""
    made = trial(unanswered, 1)
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    pod = next(each for each in made.world.snapshot.pods.values() if each.name == "high")
    raw = made.world.pod("high", "high", gates=(GATE,), spec={"priority": 5})
    raw["metadata"] |= {
        "labels": {"apportion.dev/pod-group": "g"},
        "annotations": {"apportion.dev/pod-group-min-count": "1"},
        "uid": pod.uid,
    }
    made.world.see(PODS, raw)
    await made.passes(4)
    assert made.evicted == []


async def test_nobody_goes_for_what_waits_for_its_quota(unanswered: Client) -> None:
    """The devices would not help it; when the limit is raised, they do."""
    made = trial(unanswered, 1)
    namespace(made.world, "team", team="team")
    limits = quota(made.world, "team", limit=1)
    holds(made.world, "low", 0)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == []
    limits["spec"]["resources"][0]["limit"] = 2
    made.world.see(QUOTAS, limits)
    await made.passes(12)
    assert made.evicted == ["low"]


# Who may go for whom. -----------------------------------------------------------------------------------------------


@dataclass
class Lent:
    """A rule as a quota has: what a namespace was only lent goes back to whom it is guaranteed."""

    borrowers: frozenset[str]

    def may_go(self, holder: Holder, demand: WaitingDemand) -> bool:
        return demand.claims[0].name not in self.borrowers and all(
            claim.name in self.borrowers for claim in holder.claims
        )


async def test_a_guarantee_is_taken_back_from_a_borrower_of_equal_priority(unanswered: Client) -> None:
    """A rule beside priorities decides, too (kubernetes-sigs/kueue 6577)."""
    rule: Eligibility = AnyOf([LowerPriority(), Lent(frozenset({"borrower"}))])
    made = trial(unanswered, 2, rule=rule)
    holds(made.world, "guaranteed", 0)
    holds(made.world, "borrower", 1, age=9999)
    waits(made.world, "owner", 1)
    await made.passes()
    assert made.evicted == ["borrower"]


# Who is left alone for a while. -------------------------------------------------------------------------------------


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
