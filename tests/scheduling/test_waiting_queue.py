"""The queue is the same, whether followed change by change or put together anew."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, CLASSES, PODS
from apportion.dra.allocation import Allocation
from apportion.scheduling.waiting import WaitingQueue, waiting_demands
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.queued import world
from tests.steps import steps as steps_of

CLAIM, POD = st.integers(0, 4), st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("claim"), CLAIM, st.sampled_from(["gpu", "theirs", "late", "mixed"])),
    st.tuples(st.just("immediate"), CLAIM),
    st.tuples(st.just("allocate"), CLAIM),
    st.tuples(st.just("assume"), CLAIM),
    st.tuples(st.just("forget"), CLAIM),
    st.tuples(st.just("end"), CLAIM),
    st.tuples(
        st.just("pod"),
        POD,
        st.lists(CLAIM, max_size=3, unique=True),
        st.sampled_from([(), (GATE,), (GATE, "other")]),
        st.sampled_from(["default-scheduler", "mistyped"]),
        st.integers(0, 2),
    ),
    st.tuples(st.just("finish"), POD),
    st.tuples(st.just("class"), st.booleans()),
    st.tuples(st.just("policy"), st.sampled_from(["FIFO", "Priority"])),
)


@given(st.lists(STEPS, max_size=30))
def test_following_changes_leads_where_a_new_look_leads(steps: list[Any]) -> None:
    """Claims, pods, allocations, classes and policies come and go in any order."""
    made = world()
    queue, uids = WaitingQueue(made.snapshot), {slot: f"claim-{slot}" for slot in range(5)}
    for kind, *what in steps:
        _step(made, kind, what, uids)
        demands, unservable = queue.demands()
        fresh, others = waiting_demands(made.snapshot)
        assert demands == fresh
        assert sorted(map(repr, unservable)) == sorted(map(repr, others))


def test_a_demand_goes_when_another_claim_of_its_pod_does() -> None:
    """Also one that is no part of the demand: kube-scheduler would allocate it."""
    made = world()
    made.claim("ours")
    theirs = made.claim("theirs", request("theirs"))
    made.pod("p", "ours", "theirs")
    queue = WaitingQueue(made.snapshot)
    assert len(queue.demands()[0]) == 1
    made.gone(CLAIMS, theirs)
    assert queue.demands()[0] == []
    made.claim("theirs", request("theirs"), uid="another")
    assert len(queue.demands()[0]) == 1


def _step(made: ObservedCluster, kind: str, what: list[Any], uids: dict[int, str]) -> None:
    snapshot = made.snapshot
    uid = uids.get(what[0], "") if what else ""
    claim = snapshot.claims.get(uid)
    match kind:
        case "claim":
            asked = [request(name) for name in (("gpu", "theirs") if what[1] == "mixed" else (what[1],))]
            made.claim(f"c{what[0]}", *asked, uid=uid)
        case "immediate":
            made.claim(f"c{what[0]}", uid=uid, annotations={GATE: "Immediate"})
        case "allocate":
            made.allocate(made.claim(f"c{what[0]}", uid=uid), "n1", "gpu-0")
        case "assume" if claim is not None:
            snapshot.assume(claim, Allocation.from_json({"devices": {"results": []}}))
        case "forget":
            assumption = snapshot.assumed.get(uid)
            if assumption is not None:
                snapshot.forget(assumption)
        case "end":
            made.gone(CLAIMS, {"metadata": {"uid": uid, "name": f"c{what[0]}", "namespace": "team"}})
            uids[what[0]] = f"claim-{what[0]}-{made.version}"
        case "pod":
            number, claims, gates, scheduler, priority = what
            names = [f"c{each}" for each in claims]
            made.pod(
                f"p{number}", *names, gates=gates, spec={"schedulerName": scheduler, "priority": priority}
            )
        case "finish":
            pod = made.pod(f"p{what[0]}")
            made.see(PODS, pod | {"status": {"phase": "Failed"}})
        case "class":
            change = "MODIFIED" if what[0] else "DELETED"
            metadata = {
                "name": "late",
                "labels": {"apportion.dev/managed": "true"},
                "uid": f"late-{made.version}",
            }
            for known in [each for each in snapshot.classes.values() if each.name == "late"]:
                metadata["uid"] = known.uid
            made.see(CLASSES, {"metadata": metadata, "spec": {}}, change)
        case "policy":
            made.policy(queue={"order": what[0]})


def test_a_pass_costs_the_same_however_many_wait() -> None:
    """Nothing changed of them; a demand that comes is put together, and all are sorted."""
    counts = []
    for waiting in (5, 50):
        made = world()
        for number in range(waiting):
            made.wait_for(f"w{number}", request("gpu"))
        queue = WaitingQueue(made.snapshot)
        assert len(queue.demands()[0]) == waiting
        counts.append(steps_of(queue.demands))
    assert counts[0] == counts[1]
