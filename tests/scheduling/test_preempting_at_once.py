"""Preemptions at the same time: each sees whom the others evict, and what is promised to them."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import GROUP, Trial, ends, holds, joins, mark_ending, trial, waits


async def only_one_goes(made: Trial) -> None:
    """See one pod go, and no other one once it is gone."""
    await made.passes(4)
    assert len(made.evicted) == 1, made.evicted
    ends(made.world, *made.evicted)
    await made.passes(4)
    assert len(made.evicted) == 1, made.evicted
    assert len([name for name in made.world.places() if name.startswith("high")]) == 1


@pytest.mark.parametrize(("preemptors", "left"), [(1, 2), (2, 0)])
async def test_a_group_of_which_one_pod_may_go_goes_as_a_whole_when_two_take_one_each(
    unanswered: Client, preemptors: int, left: int
) -> None:
    """Three pods, of which two are needed: each took the one that may go, and the third ran on for nothing."""
    made = trial(unanswered, 3)
    member = {"labels": {GROUP: "g"}, "annotations": {f"{GROUP}-min-count": "2"}}
    for number in range(3):
        holds(made.world, f"member-{number}", number, metadata=member)
    for number in range(preemptors):
        waits(made.world, f"high-{number}", 1, priority=5)
    await made.passes(4)
    assert 3 - len(made.evicted) == left, made.evicted


async def test_a_pod_that_was_evicted_counts_as_gone_before_the_watch_shows_it(unanswered: Client) -> None:
    """A budget stops the evictions on the first node; on the second the group would lose one more pod than it can spare."""
    made = trial(unanswered, 2, nodes=3)
    member = {"labels": {GROUP: "g"}, "annotations": {f"{GROUP}-min-count": "2"}}
    for node, age in (("n1", 100.0), ("n2", 200.0)):
        holds(made.world, f"a-{node}", 0, node=node, metadata=member, age=age)
        holds(made.world, f"b-{node}", 1, node=node, age=age)
    holds(made.world, "a-n3", 0, node="n3", metadata=member)
    holds(made.world, "beside", 1, node="n3", priority=9)
    made.evictor.unseen, made.evictor.protected_late = ["a-n1"], ["b-n1"]
    waits(made.world, "high", 2, priority=5)
    await made.passes(4)
    assert sorted(made.evicted) == ["a-n1", "a-n2", "a-n3", "b-n2"]


async def test_no_other_pod_goes_while_the_watch_is_late(unanswered: Client) -> None:
    """The server said that the first one goes. After half a minute in which the watch of pods was silent its eviction passed for in vain, and others could have its device."""
    made = trial(unanswered, 3)
    made.evictor.unseen = ("low-0", "low-1", "low-2")
    for number in range(3):
        holds(made.world, f"low-{number}", number, priority=number)
    waits(made.world, "high", 1, priority=5)
    await made.passes(40)
    assert made.evicted == ["low-0"]
    ends(made.world, "low-0")
    await made.passes()
    assert made.world.places()["high"] == "n1"
    assert "PreemptionInVain" not in {reason for _, reason in made.world.warned}


async def test_a_pod_that_goes_for_one_leaves_the_rest_of_its_devices_for_another(unanswered: Client) -> None:
    """It is evicted once, and nobody else is."""
    made = trial(unanswered, 4)
    holds(made.world, "wide", 0, 1)
    holds(made.world, "dear", 2, 3, priority=1)
    for number in range(2):
        waits(made.world, f"high-{number}", 1, priority=5)
    await made.passes(4)
    assert made.evicted == ["wide"]
    ends(made.world, "wide")
    await made.passes(2)
    assert {"high-0", "high-1"} <= made.world.places().keys()


async def test_who_waits_for_a_pod_that_stays_after_all_finds_another_one_soon(unanswered: Client) -> None:
    """A budget protects the pod that was to go for both."""
    made = trial(unanswered, 4)
    holds(made.world, "wide", 0, 1)
    for number in range(2):
        holds(made.world, f"dear-{number}", 2 + number, priority=1)
        waits(made.world, f"high-{number}", 1, priority=5)
    made.evictor.protected = ("wide",)
    await made.passes(12)
    assert sorted(made.evicted) == ["dear-0", "dear-1"]


async def test_what_is_kept_beside_a_pod_that_ends_already_is_so_until_it_is_gone(unanswered: Client) -> None:
    """It takes its grace period; a minute after the evicted one had gone, that eviction passed for in vain, and others got its device."""
    made = trial(unanswered, 2)
    holds(made.world, "slow", 0)
    mark_ending(made.world, "slow")
    holds(made.world, "low", 1)
    waits(made.world, "high", 2, priority=5)
    await made.passes(2)
    assert made.evicted == ["low"]
    ends(made.world, "low")
    waits(made.world, "small", 1)
    await made.passes(100)
    assert made.world.places() == {"slow": "n1"}
    ends(made.world, "slow")
    await made.passes(2)
    assert made.world.places() == {"high": "n1"}
    assert "PreemptionInVain" not in {reason for _, reason in made.world.warned}


async def test_who_waits_for_a_pod_that_does_not_end_has_another_one_evicted(unanswered: Client) -> None:
    """Its end costs nothing, so that it was chosen each hour: a process that hangs in its driver, or a grace period of days, kept all from evicting anybody there."""
    made = trial(unanswered, 2)
    holds(made.world, "hangs", 0)
    mark_ending(made.world, "hangs")
    holds(made.world, "low", 1)
    waits(made.world, "high", 1, priority=5)
    await made.passes(3)
    assert made.evicted == []
    made.world.clock.now += 3600
    await made.passes(2)
    assert made.evicted == ["low"]


async def test_the_room_of_a_node_beside_devices_is_promised_to_one(unanswered: Client) -> None:
    """It has cpu for one of them: the second victim would go in vain."""
    made = trial(unanswered, 2)
    made.world.node("n1", cpu="4", host="n1")
    small = [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]
    large = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
    for number in range(2):
        holds(made.world, f"low-{number}", number, containers=small)
        waits(made.world, f"high-{number}", 1, priority=5, containers=large)
    await only_one_goes(made)


async def test_what_a_limit_leaves_is_promised_to_one(unanswered: Client) -> None:
    """A quota leaves one GPU to the team: the second victim, of another team, would go in vain."""
    made = trial(unanswered, 2)
    for team in ("team", "other"):
        namespace(made.world, team, team=team)
    quota(made.world, "team", limit=1)
    for number in range(2):
        holds(made.world, f"low-{number}", number, team="other")
        waits(made.world, f"high-{number}", 1, priority=5)
    await only_one_goes(made)


async def test_what_a_limit_leaves_beside_a_group_is_promised_to_the_group(unanswered: Client) -> None:
    """Each of its members counts."""
    made = trial(unanswered, 3)
    for team in ("team", "other"):
        namespace(made.world, team, team=team)
    quota(made.world, "team", limit=2)
    for number in range(3):
        holds(made.world, f"low-{number}", number, team="other")
    joins(made.world, "a", "b", priority=6)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert len(made.evicted) == 2, made.evicted


async def test_two_that_must_not_share_a_node_do_not_both_evict_there(unanswered: Client) -> None:
    """Pods of one Deployment with required anti-affinity: there is one node, and it can have one of them."""
    made = trial(unanswered, 2)
    made.world.node("n1", cpu="64", **{"kubernetes.io/hostname": "n1"})
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(2):
        holds(made.world, f"low-{number}", number)
        name, spec = f"high-{number}", {"priority": 5, "affinity": apart}
        made.world.claim(name, request("gpu", count=1), namespace="team")
        raw = made.world.pod(name, name, gates=(GATE,), spec=spec, namespace="team")
        raw["metadata"]["labels"] = {"app": "x"}
        made.world.see(PODS, raw)
    await only_one_goes(made)
