"""Who is not evicted for a higher priority, or not alone, and for whom nobody is."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS, QUOTAS
from tests.observedcluster import request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import (
    ends,
    holds,
    trial,
    waits,
)


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
