"""Which changes wake a pass at once: all by which somebody can be served, or loses the gate."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, PARTITIONS, PODS
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import Json, ObservedCluster
from tests.partitions.onecard import FIRST, OneCard
from tests.scheduling.clustersteps import CLAIM, POD, STEPS, claim_uids, step
from tests.scheduling.openedgates import opened
from tests.scheduling.queued import world

LIVES = st.one_of(
    STEPS,
    st.tuples(st.sampled_from(["unmade", "made", "ungate", "bind", "start", "delete"]), POD),
    st.tuples(st.just("reserve"), CLAIM),
    st.tuples(st.just("owned"), CLAIM),
)


@pytest.mark.slow
@given(st.lists(LIVES, max_size=25))
@example([("made", 1), ("reserve", 0), ("unmade", 0)])
def test_what_does_not_press_lets_nobody_in(steps: list[Any]) -> None:
    """Whatever happened before: no demand comes, and no gate can be removed, by a change that does not press.

    But for gates that wait for a pod that is seen after a claim was reserved for it, which only a late watch shows: they are looked at a moment later.
    """
    made, uids = world(), claim_uids()
    made.node("n1")
    for kind, *what in steps:
        before, wakes, pods = outcome(made), made.wakes, {*made.snapshot.pods}
        reserved = {user.uid for each in made.snapshot.claims.values() for user in each.reserved_for}
        live(made, kind, what, uids)
        if made.wakes == wakes:
            demands, open_pods = outcome(made)
            assert demands <= before[0]
            assert open_pods <= before[1] or reserved & (made.snapshot.pods.keys() - pods)


def outcome(made: ObservedCluster) -> tuple[set[str], set[str]]:
    """Return the demands that wait, and the pods whose gate can be removed."""
    demands, _ = waiting_demands(made.snapshot)
    found = opened(Gates(made.snapshot))
    return {repr(sorted(claim.uid for claim in each.claims)) for each in demands}, {pod.uid for pod in found}


def live(made: ObservedCluster, kind: str, what: list[Any], uids: dict[int, str]) -> None:
    """Make one step; beside those that change the cluster there are those of a pod's life."""
    name = f"p{what[0]}" if what else ""
    pod = next((each for each in made.snapshot.pods.values() if each.name == name), None)
    match kind:
        case "unmade" | "made":
            claim = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c0"}]}
            made.see(PODS, template_pod(name, claim if kind == "made" else {}))
        case "ungate" if pod is not None:
            made.pod(name, *names(pod.claims))
        case "bind" | "start" if pod is not None:
            raw = made.pod(name, *names(pod.claims), spec={"nodeName": "n1"})
            made.see(PODS, raw | {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}})
        case "delete" if pod is not None:
            made.gone(PODS, {"metadata": {"uid": pod.uid, "name": name, "namespace": "team"}})
        case "reserve":
            user = {"resource": "pods", "name": "p0", "uid": "uid-team-pods-p0"}
            raw = made.claim(f"c{what[0]}", uid=uids[what[0]])
            made.allocate(raw, "n1", "gpu-0", reservedFor=[user])
        case "owned":
            owner = {"kind": "Pod", "name": "p0", "uid": "uid-team-pods-p0", "controller": True}
            made.claim(f"c{what[0]}", uid=uids[what[0]], ownerReferences=[owner])
        case "ungate" | "bind" | "start" | "delete":
            pass
        case _:
            step(made, kind, what, uids)


def names(claims: Any) -> list[str]:
    return [entry.claim for entry in claims if entry.claim]


def template_pod(name: str, status: Json) -> Json:
    """Return a gated pod whose claim is made from a template; status says whether it is made."""
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        },
        "status": status,
    }


def test_serving_a_pod_wakes_two_passes() -> None:
    """One that decides, once the pod names its claim, and one that removes the gate, once the watch shows the devices."""
    made = world()
    made.node("n1")
    owner = {"kind": "Pod", "name": "p", "uid": "uid-team-pods-p", "controller": True}
    wakes = made.wakes
    pod = made.see(PODS, template_pod("p", {}))
    claim = made.claim("c", ownerReferences=[owner])
    assert (made.wakes - wakes, made.later) == (0, 2)
    pod["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c"}]}
    made.see(PODS, pod)
    assert made.wakes - wakes == 1
    user = {"resource": "pods", "name": "p", "uid": "uid-team-pods-p"}
    made.allocate(claim, "n1", "gpu-0", reservedFor=[user])
    assert made.wakes - wakes == 2
    del pod["spec"]["schedulingGates"]
    made.see(PODS, pod)
    pod["spec"]["nodeName"] = "n1"
    made.see(PODS, pod)
    claim["status"]["devices"] = [{"driver": "gpu.apportion.dev"}]
    made.see(CLAIMS, claim)
    pod["status"] |= {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    made.see(PODS, pod)
    assert (made.wakes - wakes, made.later) == (2, 6)
    pod["status"]["phase"] = "Succeeded"
    made.see(PODS, pod)
    assert made.wakes - wakes == 3


def test_a_partition_presses_once_it_is_cut_or_changes_hands() -> None:
    """The claim's pod loses its gate then; that it was asked for and is being cut lets nobody in."""
    card = OneCard()
    world = card.world
    world.allocate(world.claim("c"), "n1", FIRST)
    wakes, later = world.wakes, world.later
    [action] = card.actions()
    raw = action.partition.to_json()
    world.see(PARTITIONS, raw)
    raw["status"] = {"phase": "Creating"}
    world.see(PARTITIONS, raw)
    assert (world.wakes, world.later) == (wakes, later + 2)
    raw["status"] = {"phase": "Ready"}
    world.see(PARTITIONS, raw)
    assert (world.wakes, world.later) == (wakes + 1, later + 2)
    del raw["spec"]["holder"]
    raw["status"] = {"phase": "Creating"}
    world.see(PARTITIONS, raw)
    assert world.wakes == wakes + 2


def test_a_claim_that_comes_after_its_pod_has_named_it_presses() -> None:
    """The watches of pods and claims are two: either may be ahead."""
    made = world()
    owner = {"kind": "Pod", "name": "p", "uid": "uid-team-pods-p", "controller": True}
    made.see(PODS, template_pod("p", {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c"}]}))
    wakes = made.wakes
    made.claim("c", ownerReferences=[owner])
    assert made.wakes == wakes + 1


@pytest.mark.parametrize(
    ("before", "after"), [([GATE, "other"], [GATE]), (["other"], []), ([GATE, "other"], [])]
)
def test_a_pod_that_loses_the_gate_of_others_presses(before: list[str], after: list[str]) -> None:
    """It has been waiting for that."""
    made = world()
    made.claim("c")
    made.pod("p", "c", gates=before)
    wakes = made.wakes
    made.pod("p", "c", gates=after)
    assert made.wakes == wakes + 1


def test_a_pod_without_a_gate_presses_when_its_claim_is_named() -> None:
    """Namespaces need not be managed."""
    made = world()
    pod = template_pod("p", {})
    del pod["spec"]["schedulingGates"]
    made.see(PODS, pod)
    wakes = made.wakes
    pod["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c"}]}
    made.see(PODS, pod)
    assert made.wakes == wakes + 1
