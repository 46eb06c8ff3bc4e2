"""Which nodes could take a pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.dra.pod import Pod
from apportion.dra.taint import Taint, Toleration
from apportion.scheduling.room.hostcapacity import HostCapacity
from tests.scheduling.hosts import fits, node, pod


def test_a_node_takes_pods_until_its_cpu_is_promised() -> None:
    """Pods that are bound or promised count, for cpu and for the number of pods."""
    capacity = HostCapacity([node("n")])
    assert fits(capacity, pod())
    capacity.take("n", pod())
    assert fits(capacity, pod())
    capacity.take("n", pod())
    assert not fits(capacity, pod())
    assert capacity.fitting([pod()])[1] == {"too little cpu": 1}


def test_what_is_promised_is_returned_as_it_was_when_asked() -> None:
    """A demand that was made before a promise does not change with it."""
    capacity = HostCapacity([node("n"), node("m")])
    capacity.take("n", pod())
    before = capacity.taken
    capacity.take("n", pod())
    gib = 1 << 30
    assert before == {"n": (1000, gib)}
    assert capacity.taken == {"n": (2000, 2 * gib)}


def test_pods_that_share_a_claim_must_fit_together() -> None:
    """Three pods of one core each do not fit on two cores."""
    assert not fits(HostCapacity([node("n")]), pod(), pod(), pod())
    assert fits(HostCapacity([node("n")]), pod(), pod())


def test_resources_that_a_node_does_not_have_rule_it_out() -> None:
    """Extended resources count like cpu."""
    resources = {"requests": {"example.com/other": "1"}}
    assert not fits(HostCapacity([node("n")]), pod(containers=[{"name": "c", "resources": resources}]))
    resources = {"requests": {"example.com/thing": "1"}}
    assert fits(HostCapacity([node("n")]), pod(containers=[{"name": "c", "resources": resources}]))


def test_the_largest_init_container_counts_beside_sidecars() -> None:
    """An init container that needs more than all containers together decides."""
    big = {"name": "i", "resources": {"requests": {"cpu": "3"}}}
    assert not fits(HostCapacity([node("n")]), pod(initContainers=[big]))
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1500m"}}}
    assert not fits(HostCapacity([node("n")]), pod(initContainers=[sidecar]))


@pytest.mark.parametrize(
    ("operator", "value", "found", "tolerated"),
    [
        ("Gt", "950", "990", True),
        ("Gt", "950", "950", False),
        ("Gt", "950", "1000", True),
        ("Lt", "0", "-7", True),
        ("Lt", "950", "990", False),
        ("Gt", "0950", "990", False),
        ("Gt", "950", "+990", False),
        ("Gt", "0", str(2**63 - 1), True),
        ("Gt", "0", str(2**63), False),
        ("Gt", "0", "high", False),
        ("Lt", "1", "", False),
    ],
)
def test_a_pods_toleration_compares_numbers(
    operator: str, value: str, found: str, *, tolerated: bool
) -> None:
    """Operators Gt and Lt (core/v1 toleration.go `compareNumericValues`); tolerations of devices have none of them."""
    tainted = HostCapacity(
        [node("n", spec={"taints": [{"key": "sla", "effect": "NoSchedule", "value": found}]})]
    )
    raw = {"key": "sla", "operator": operator, "value": value}
    assert fits(tainted, pod(tolerations=[raw])) == tolerated
    assert not Toleration.from_json(raw).tolerates(Taint("sla", "NoSchedule", found))


def test_a_taint_rules_a_node_out_unless_it_is_tolerated() -> None:
    """NoSchedule and cordons keep pods away; PreferNoSchedule does not."""
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    tainted = HostCapacity([node("n", spec={"taints": [taint]})])
    assert not fits(tainted, pod())
    assert fits(tainted, pod(tolerations=[{"key": "maintenance", "operator": "Exists"}]))
    assert not fits(HostCapacity([node("n", spec={"unschedulable": True})]), pod())
    soft = {"key": "maintenance", "effect": "PreferNoSchedule"}
    assert fits(HostCapacity([node("n", spec={"taints": [soft]})]), pod())


def test_node_selector_and_required_affinity_must_match() -> None:
    """Labels and, by matchFields, the node's name."""
    capacity = HostCapacity([node("n")])
    assert not fits(capacity, pod(nodeSelector={"zone": "b"}))
    assert fits(capacity, pod(nodeSelector={"zone": "a"}))

    def affinity(**term: object) -> dict[str, object]:
        required = {"nodeSelectorTerms": [term]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    by_name = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    assert fits(capacity, pod(affinity=affinity(matchFields=[by_name])))
    assert not fits(capacity, pod(affinity=affinity(matchFields=[{**by_name, "values": ["other"]}])))
    assert not fits(
        capacity, pod(affinity=affinity(matchExpressions=[{"key": "zone", "operator": "DoesNotExist"}]))
    )
    assert not fits(capacity, pod(affinity=affinity()))


KINDS = (
    pod(),
    pod(nodeSelector={"zone": "b"}),
    pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}}}]),
)


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.sampled_from(["n", "m", "b", "gone"]), st.sampled_from(KINDS)),
            st.tuples(st.just("drop"), st.sampled_from(KINDS)),
            st.tuples(st.just("bind"), st.sampled_from(["n", "m", "b"]), st.integers(0, 2000)),
            st.tuples(st.just("cordon"), st.sampled_from(["n", "m", "b"]), st.booleans()),
            st.tuples(st.just("remove"), st.sampled_from(["n", "m", "b"])),
            st.tuples(st.just("ask"), st.lists(st.sampled_from(KINDS), min_size=1, max_size=2)),
        ),
        max_size=20,
    )
)
def test_what_was_found_out_before_changes_no_answer(steps: list[Any]) -> None:
    """The same questions while promises come and go, nodes change, pods are bound."""
    nodes = {name: node(name) for name in ("n", "m")}
    nodes["b"] = node("b", metadata={"name": "b", "labels": {"zone": "b"}})
    load: dict[str, dict[str, int]] = {name: {} for name in nodes}
    taken = dict[str, tuple[str, Pod]]()
    capacity = HostCapacity(nodes.values(), load.__getitem__)
    for kind, *what in steps:
        match kind:
            case "take":
                taken[what[1].uid] = what[0], what[1]
                capacity.take(*what)
            case "drop":
                taken.pop(what[0].uid, None)
                capacity.drop(what[0].uid)
            case "bind":
                load[what[0]] = {"cpu": what[1], "pods": 1}
                capacity.put(what[0], nodes.get(what[0]))
            case "cordon":
                nodes[what[0]] = node(what[0], spec={"unschedulable": what[1]})
                capacity.put(what[0], nodes[what[0]])
            case "remove":
                nodes.pop(what[0], None)
                capacity.put(what[0], None)
            case "ask":
                fresh = HostCapacity(nodes.values(), load.__getitem__)
                for one in taken.values():
                    fresh.take(*one)
                assert capacity.fitting(what[0]) == fresh.fitting(what[0])
                assert capacity.taken == fresh.taken


def test_a_pod_counts_once_on_the_node_where_it_was_promised_last() -> None:
    """What a pass decided is seen again in the next one, on the node where it was written."""
    capacity, one = HostCapacity([node("n"), node("m")]), pod()
    capacity.take("n", one)
    capacity.take("m", one)
    assert capacity.taken == {"m": (1000, 1 << 30)}
    capacity.drop(one.uid)
    assert capacity.taken == {}
