"""Plans of DefragPolicies: who may be moved without a person, which cards count, and what a window brings."""

from typing import Any

import pytest

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, POD_GROUPS, PODS
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.defrag import movables
from apportion.scheduling.defrag.goals import check_goal
from apportion.scheduling.defrag.movables import MovableReader, Scope
from apportion.scheduling.defrag.records import plan_record
from apportion.scheduling.pace import AT_ONCE
from testbed.cycle import now
from tests.clients import silent
from tests.defrag.planned import Json, cards, plan, policy, runs, scattered
from tests.observedcluster import GPU, request
from tests.steps import Steps

__all__ = ["silent"]


async def test_a_plan_says_who_would_move_where_and_what_is_free_then(silent: Client) -> None:
    """As the status shows it."""
    cluster = scattered()
    policy(cluster)
    planned, found = plan(cluster, silent)
    record = plan_record(planned.plan, found, now())
    [move] = record.moves
    assert move.source.node != move.target.node
    assert record.freed == (f"gpu.apportion.dev/{move.source.node}/gpu-0",)
    assert (record.restarts, record.proven, record.left_alone) == (1, True, ())


async def test_planning_changes_nothing_of_what_the_operator_decides_by(silent: Client) -> None:
    """It has a state of its own."""
    cluster = scattered()
    policy(cluster)
    state = cluster.snapshot.state
    before, moment = dict(state.held()), state.moment
    plan(cluster, silent)
    assert (dict(state.held()), state.moment) == (before, moment)


@pytest.mark.parametrize("forgotten", [False, True])
async def test_what_changes_while_it_is_read_is_left_out(silent: Client, *, forgotten: bool) -> None:
    """Its pod ends; the others may move, also if so much changed that the log of changes does not reach back."""
    cluster = scattered()
    names = frozenset(cluster.snapshot.state.names())
    candidates = cluster.cycle(silent).decider.candidates
    reading = MovableReader(cluster.snapshot, candidates, cluster.seconds(), Scope(nodes=names)).gather()
    for _ in range(2):
        next(reading)
    raw = cluster.objects["Pod", "team", "a"]
    raw["metadata"]["deletionTimestamp"] = cluster.time()
    cluster.see(PODS, raw)
    if forgotten:
        cluster.snapshot.changes.claims.void()
    found = finished(reading)
    assert [pod.name for each in found.movables for pod in found.pods[each.key]] == ["b"]


async def test_pods_of_a_group_stay_whose_podgroup_object_says_how_many_it_needs(silent: Client) -> None:
    """The others would lose what they did together; by `basic` they did nothing together."""
    cluster = scattered()
    policy(cluster)
    raw = cluster.objects["Pod", "team", "a"]
    raw["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    cluster.see(PODS, raw)
    for says, alone in (({"basic": {}}, 0), ({"gang": {"minCount": 2}}, 1)):
        metadata = {"name": "train", "namespace": "team"}
        cluster.see(POD_GROUPS, {"metadata": metadata, "spec": {"schedulingPolicy": says}})
        _, found = plan(cluster, silent)
        assert found.left_alone[movables.GROUPED] == alone


async def test_pods_that_hang_together_by_claims_are_read_in_steps(silent: Client) -> None:
    """5,000 pods of which each names the next one's claim, too, were gone through in one piece."""
    longest, many = [], 5 * AT_ONCE
    for count in (many, 2 * many):
        cluster = scattered()
        for number in range(count):
            cluster.claim(f"c{number}", request("gpu"))
        for number in range(count):
            cluster.pod(f"p{number}", f"c{number}", f"c{(number + 1) % count}", "a-claim", gates=(GATE,))
        candidates = cluster.cycle(silent).decider.candidates
        scope = Scope(nodes=frozenset({"n1", "n2"}), unattended=True)
        reading = MovableReader(cluster.snapshot, candidates, cluster.seconds(), scope).gather()
        found, more = [], True
        while more:
            with Steps(Snapshot.named_claims) as counted:
                more = next(reading, reading) is not reading
            found.append(counted.count)
        longest.append(max(found))
    assert max(longest) <= 4 * AT_ONCE


async def test_pods_that_could_go_to_the_same_nodes_share_their_names(silent: Client) -> None:
    """A set of thousands of names for each of tens of thousands of pods would be gigabytes."""
    cluster = scattered()
    policy(cluster)
    _, found = plan(cluster, silent)
    first, second = (each.demand.nodes for each in found.movables)
    assert first is second is not None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"kind": "Job"}, movables.JOB),
        ({"kind": "TrainingRun"}, movables.JOB),
        ({"kind": "DaemonSet"}, movables.UNMADE),
        ({"kind": "StatefulSet"}, ""),
        ({}, ""),
    ],
)
async def test_without_a_person_only_pods_move_that_are_known_to_come_anew(
    silent: Client, more: dict[str, str], reason: str
) -> None:
    """A Job counts an evicted pod as a failure; what another controller does nobody knows."""
    cluster = scattered(**more)
    policy(cluster)
    planned, found = plan(cluster, silent)
    assert str(planned.verdict) == ("NoMoves" if reason else "Planned")
    assert dict(found.left_alone) == ({reason: 2} if reason else {})


async def test_a_node_that_is_cordoned_counts_for_nothing(silent: Client) -> None:
    """Neither do pods move there, nor away from there: nobody could use the card."""
    cluster = scattered()
    raw = cluster.objects["Node", "", "n2"]
    raw["spec"] = {"unschedulable": True}
    cluster.see(NODES, raw)
    policy(cluster)
    planned, _ = plan(cluster, silent)
    assert str(planned.verdict) == "NoMoves"


@pytest.mark.parametrize(
    ("spec", "verdict"),
    [
        ({}, "Planned"),
        ({"free": {"wholeCards": {"deviceClass": "gpu", "count": 2}}, "threshold": 2}, "BelowThreshold"),
        (
            {
                "free": {
                    "wholeCards": {
                        "deviceClass": "gpu",
                        "selectors": [{"cel": {"expression": "false"}}],
                    }
                }
            },
            "NoMoves",
        ),
        ({"free": {"wholeCards": {"deviceClass": "mig"}}}, "NoMoves"),
        ({"free": {"roomFor": {"deviceClass": "gpu"}}}, "Planned"),
        ({"free": {"roomFor": {"deviceClass": "gpu", "count": 2}}}, "NoMoves"),
        ({"free": {"roomFor": {"deviceClass": "mig"}}}, "NothingToDo"),
        ({"free": {"roomFor": {"deviceClass": "nothing"}}}, "Broken"),
    ],
)
async def test_what_a_window_brings_is_named(silent: Client, spec: dict[str, Any], verdict: str) -> None:
    """One word for programs; a class of partitions selects no whole card."""
    cluster = scattered()
    policy(cluster, **spec)
    planned, _ = plan(cluster, silent)
    assert str(planned.verdict) == verdict


COLOUR = f'device.attributes["{GPU}"].colour == "green"'


@pytest.mark.parametrize("goal", ["wholeCards", "roomFor"])
async def test_a_selector_that_fails_on_devices_is_named_with_one_of_them(silent: Client, goal: str) -> None:
    """Not NoMoves: whatever moved, nothing would be selected."""
    cluster = scattered()
    policy(
        cluster,
        free={
            goal: {"deviceClass": "gpu", "selectors": [{"cel": {"expression": "true"}}, _selector(COLOUR)]}
        },
    )
    planned, _ = plan(cluster, silent)
    assert str(planned.verdict) == "SelectorFailed"
    assert planned.message == (
        f"spec.free.{goal}.selectors[1].cel.expression: selector #1 on device {GPU}/n1/gpu-0: CEL runtime error: no such key: colour; it fails on 1 more"
    )


async def test_a_class_whose_selector_fails_is_named(silent: Client) -> None:
    """By the field that names it."""
    cluster = scattered()
    cluster.device_class("coloured", COLOUR)
    policy(cluster, free={"wholeCards": {"deviceClass": "coloured"}})
    planned, _ = plan(cluster, silent)
    assert str(planned.verdict) == "SelectorFailed"
    assert planned.message.startswith(
        f"spec.free.wholeCards.deviceClass: DeviceClass coloured: selector #0 on device {GPU}/n1/gpu-0"
    )


async def test_a_plan_without_the_devices_on_which_a_selector_fails_says_so(silent: Client) -> None:
    """The cards of the other nodes count."""
    cluster = scattered()
    odd = {"name": "odd", "attributes": {"type": {"string": "gpu"}, "odd": {"string": ""}}}
    cluster.node("n3")
    cluster.slice("n3", "odd", {"devices": [odd]}, 1)
    own = f'device.attributes["{GPU}"]'
    selector = _selector(f"!has({own}.odd) || {own}.missing")
    policy(cluster, free={"wholeCards": {"deviceClass": "gpu", "selectors": [selector]}})
    planned, _ = plan(cluster, silent)
    assert str(planned.verdict) == "Planned"
    assert planned.message == (
        f"spec.free.wholeCards.selectors[0].cel.expression: selector #0 on device {GPU}/n3/odd: CEL runtime error: no such key: missing"
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"free": {"wholeCards": {"deviceClass": "gpu", "count": 2}}, "threshold": 3},
            "spec.threshold: no plan is for 3 cards, because spec.free.wholeCards.count is 2",
        ),
        ({"moveTimeout": "0s"}, "spec.moveTimeout: no move would ever end in time within 0s"),
        (
            {"free": {"roomFor": {"deviceClass": "gqu"}}, "threshold": 3},
            "spec.free.roomFor.deviceClass: DeviceClass gqu does not exist; did you mean gpu?",
        ),
    ],
)
def test_what_no_plan_could_meet_is_named(spec: dict[str, Any], said: str) -> None:
    """Before any window opens."""
    cluster = scattered()
    policy(cluster, **spec)
    [made] = cluster.snapshot.defrags.values()
    with pytest.raises(BrokenInput) as refused:
        check_goal(made.spec, cluster.snapshot.state.classes, cluster.programs)
    assert str(refused.value) == said


async def test_a_policy_for_whole_cards_whose_class_selects_partitions_says_so(silent: Client) -> None:
    """No moves would help."""
    cluster = scattered()
    policy(cluster, free={"wholeCards": {"deviceClass": "mig"}})
    planned, _ = plan(cluster, silent)
    assert planned.message == "spec.free.wholeCards selects no device that takes a whole card"


async def test_a_policy_that_selects_no_node_says_so(silent: Client) -> None:
    """Its claims would find a place, if any node counted."""
    cluster = scattered()
    policy(cluster, nodeSelector={"matchLabels": {"pool": "shraed"}})
    planned, _ = plan(cluster, silent, names=frozenset())
    assert (str(planned.verdict), planned.message) == (
        "NoMoves",
        "spec.nodeSelector selects no node that is not cordoned",
    )


def _selector(expression: str) -> Json:
    return {"cel": {"expression": expression}}


async def test_a_plan_for_room_that_restarts_too_many_is_none(silent: Client) -> None:
    """Each card has two pods, and one may go."""
    cluster = cards()
    for number, start in enumerate((0, 1)):
        runs(cluster, f"a{number}", "n1", "1g.10gb", start)
        runs(cluster, f"b{number}", "n2", "1g.10gb", start)
    policy(cluster, free={"roomFor": {"deviceClass": "gpu"}}, maxRestarts=1)
    planned, found = plan(cluster, silent)
    assert str(planned.verdict) == "TooManyRestarts"
    assert plan_record(planned.plan, found, now()).moves == ()
