"""Steps that change a small cluster in any order: claims, pods, allocations, classes and policies come and go."""

from typing import Any

from hypothesis import strategies as st

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, CLASSES, PODS
from apportion.dra.allocation import Allocation
from tests.observedcluster import ObservedCluster, request

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
    st.tuples(st.just("say"), POD),
    st.tuples(st.just("class"), st.sampled_from(["managed", "plain", "gone"])),
    st.tuples(st.just("policy"), st.sampled_from(["FIFO", "Priority"])),
)
SLOTS = range(5)


def claim_uids() -> dict[int, str]:
    """Return the UID of the claim in each slot; `step` changes it where a claim ends."""
    return {slot: f"claim-{slot}" for slot in SLOTS}


def step(made: ObservedCluster, kind: str, what: list[Any], uids: dict[int, str]) -> None:
    """Make one step."""
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
        case "assume" if claim is not None and snapshot.assumed.get(claim.uid) is None:
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
        case "say":
            _say(made, f"p{what[0]}")
        case "class":
            change = "DELETED" if what[0] == "gone" else "MODIFIED"
            labels = {"apportion.dev/managed": "true"} if what[0] == "managed" else {}
            metadata = {"name": "late", "labels": labels, "uid": f"late-{made.version}"}
            for known in [each for each in snapshot.classes.values() if each.name == "late"]:
                metadata["uid"] = known.uid
            made.see(CLASSES, {"metadata": metadata, "spec": {}}, change)
        case "policy":
            made.policy(queue={"order": what[0]})


def _say(made: ObservedCluster, name: str) -> None:
    """Show a pod as it is in another version."""
    for pod in [each for each in made.snapshot.pods.values() if each.name == name]:
        names = [entry.claim for entry in pod.claims if entry.claim]
        spec = {"schedulerName": pod.scheduler, "priority": pod.priority}
        made.pod(pod.name, *names, gates=pod.gates, spec=spec)
