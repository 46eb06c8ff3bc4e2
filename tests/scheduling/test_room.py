"""Which nodes could take a pod."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.scheduling.room import Room


def node(name: str, **changes: object) -> Node:
    raw: dict[str, object] = {
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9", "example.com/thing": "1"}},
        **changes,
    }
    return Node.from_json(raw)


def pod(**spec: object) -> Pod:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}], **spec}}
    return Pod.from_json(raw)


def fits(room: Room, *pods: Pod) -> bool:
    return bool(room.fitting(pods)[0])


def test_a_node_takes_pods_until_its_cpu_is_promised() -> None:
    """Pods that are bound or promised count, for cpu and for the number of pods."""
    room = Room([node("n")])
    assert fits(room, pod())
    room.take("n", pod())
    assert fits(room, pod())
    room.take("n", pod())
    assert not fits(room, pod())
    assert room.fitting([pod()])[1] == {"too little cpu": 1}


def test_what_is_promised_is_told_as_it_was_when_asked() -> None:
    """A demand that was made before a promise does not change with it, nor does a room with its copy."""
    room = Room([node("n"), node("m")])
    room.take("n", pod())
    before = room.taken
    tried = room.copy()
    tried.take("m", pod())
    room.take("n", pod())
    gib = 1 << 30
    assert before == {"n": (1000, gib)}
    assert room.taken == {"n": (2000, 2 * gib)}
    assert tried.taken == {"n": (1000, gib), "m": (1000, gib)}


def test_pods_that_share_a_claim_must_fit_together() -> None:
    """Three pods of one core each do not fit on two cores."""
    assert not fits(Room([node("n")]), pod(), pod(), pod())
    assert fits(Room([node("n")]), pod(), pod())


def test_resources_that_a_node_does_not_have_rule_it_out() -> None:
    """Extended resources count like cpu."""
    wants = {"requests": {"example.com/other": "1"}}
    assert not fits(Room([node("n")]), pod(containers=[{"name": "c", "resources": wants}]))
    wants = {"requests": {"example.com/thing": "1"}}
    assert fits(Room([node("n")]), pod(containers=[{"name": "c", "resources": wants}]))


def test_the_largest_init_container_counts_beside_sidecars() -> None:
    """An init container that needs more than all containers together decides."""
    big = {"name": "i", "resources": {"requests": {"cpu": "3"}}}
    assert not fits(Room([node("n")]), pod(initContainers=[big]))
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1500m"}}}
    assert not fits(Room([node("n")]), pod(initContainers=[sidecar]))


def test_a_taint_rules_a_node_out_unless_it_is_tolerated() -> None:
    """NoSchedule and cordons keep pods away; PreferNoSchedule does not."""
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    tainted = Room([node("n", spec={"taints": [taint]})])
    assert not fits(tainted, pod())
    assert fits(tainted, pod(tolerations=[{"key": "maintenance", "operator": "Exists"}]))
    assert not fits(Room([node("n", spec={"unschedulable": True})]), pod())
    soft = {"key": "maintenance", "effect": "PreferNoSchedule"}
    assert fits(Room([node("n", spec={"taints": [soft]})]), pod())


def test_node_selector_and_required_affinity_must_match() -> None:
    """Labels and, by matchFields, the node's name."""
    room = Room([node("n")])
    assert not fits(room, pod(nodeSelector={"zone": "b"}))
    assert fits(room, pod(nodeSelector={"zone": "a"}))

    def affinity(**term: object) -> dict[str, object]:
        required = {"nodeSelectorTerms": [term]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    by_name = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    assert fits(room, pod(affinity=affinity(matchFields=[by_name])))
    assert not fits(room, pod(affinity=affinity(matchFields=[{**by_name, "values": ["other"]}])))
    assert not fits(
        room, pod(affinity=affinity(matchExpressions=[{"key": "zone", "operator": "DoesNotExist"}]))
    )
    assert not fits(room, pod(affinity=affinity()))


KINDS = (
    pod(),
    pod(nodeSelector={"zone": "b"}),
    pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}}}]),
)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.sampled_from(["n", "m", "b", "gone"]), st.sampled_from(KINDS)),
            st.tuples(st.just("ask"), st.lists(st.sampled_from(KINDS), min_size=1, max_size=2)),
            st.tuples(st.just("try"), st.sampled_from(["n", "m", "b"])),
        ),
        max_size=12,
    )
)
def test_what_was_found_out_before_changes_no_answer(steps: list[Any]) -> None:
    """The same questions again and again while promises are made, and beside promises that are only tried."""
    nodes = [node("n"), node("m"), node("b", metadata={"name": "b", "labels": {"zone": "b"}})]
    room, taken = Room(nodes), list[tuple[str, Pod]]()
    for kind, *what in steps:
        match kind:
            case "take":
                taken.append((what[0], what[1]))
                room.take(*taken[-1])
            case "ask":
                fresh = Room(nodes)
                for one in taken:
                    fresh.take(*one)
                assert room.fitting(what[0]) == fresh.fitting(what[0])
            case _:
                tried = room.copy()
                before = tried.fitting([pod()])[0]
                tried.take(what[0], pod())
                tried.take(what[0], pod())
                assert tried.fitting([pod()])[0] == before - {what[0]}
