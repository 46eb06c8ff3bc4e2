"""Explanations of refusals, as data and as text."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.explanation import Explanation, NearestMiss, NodeGroup
from apportion.allocator.explain.render import render, summary
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, A, chips, claim, cluster, device, device_request, device_slice


def why(state: State, *claims: Claim) -> Explanation:
    """Return the explanation; fails on a decision."""
    found = allocate(state, Demand(claims))
    assert isinstance(found, Refusal)
    return found.explanation


def test_a_selector_that_no_device_passes_is_named_with_the_counts_of_each_step() -> None:
    """The value of the nearest device is reported too."""
    state = cluster(device_slice("s", "n1", [device("gpu-0", "a100"), device("gpu-1", "a100")]))

    explanation = why(state, claim("c", device_request(kind="h100")))

    (group,) = explanation.groups
    assert group.kind == "selector"
    assert group.request is not None
    assert (group.request.looked, [step.passed for step in group.request.steps]) == (2, [2, 0])
    assert explanation.nearest is not None
    assert explanation.nearest.device == f"{GPU}/n1/gpu-0"
    text = summary(explanation)
    assert (
        "claim ns/c, request r (class any) wants 1: 2 devices looked at, 2 passed class selector #0" in text
    )
    assert "0 passed request selector #0" in text
    assert f'{A}.kind == "h100"' in text
    assert 'kind is "a100"' in text


def test_the_nearest_miss_is_the_device_that_fails_the_fewest_conditions() -> None:
    """One failed selector is nearer than two."""
    rows = [
        device("gpu-0") | {"attributes": {"kind": {"string": "old"}, "size": {"int": 1}}},
        device("gpu-1") | {"attributes": {"kind": {"string": "old"}, "size": {"int": 9}}},
    ]
    state = cluster(device_slice("s", "n1", rows))
    texts = [f'{A}.kind == "new"', f"{A}.size > 5"]

    explanation = why(
        state, claim("c", device_request(selectors=[{"cel": {"expression": text}} for text in texts]))
    )

    assert explanation.nearest is not None
    assert explanation.nearest.device.endswith("gpu-1")
    assert len(explanation.nearest.missing) == 1


def test_a_capacity_that_no_device_has_is_named_with_those_that_the_nearest_has() -> None:
    """It is mistyped, as a rule; too much of one that is there is something else."""
    own = {"capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "100"}}}
    state = cluster(device_slice("s", "n1", [device("gpu-0") | own]))
    for asked, said in (
        ("memry", "it has no capacity memry, only cores, memory"),
        ("memory", "its capacity left does not suffice for the requested amounts"),
    ):
        explanation = why(state, claim("c", device_request(capacity={"requests": {asked: "90Gi"}})))
        assert explanation.nearest is not None
        assert explanation.nearest.missing == (said,)


def test_the_nearest_miss_of_a_request_for_all_devices_counts_those_that_match() -> None:
    """A claim with allocationMode All names no number."""
    state = cluster(device_slice("s", "n1", [device(f"gpu-{number}") for number in range(3)]))
    state.hold("ns/other", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])

    explanation = why(state, claim("c", device_request(allocationMode="All", count=0)))

    assert explanation.nearest is not None
    assert explanation.nearest.missing == (
        "2 of all 3 devices that match would do here, this one not",
        "held by ns/other",
    )


def test_taints_are_named_with_their_numbers_of_devices() -> None:
    """Only taints without a toleration."""
    taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
    state = cluster(
        device_slice("s", "n1", [device("gpu-0", taints=[taint]), device("gpu-1", taints=[taint])])
    )

    explanation = why(state, claim("c", device_request()))

    assert explanation.groups[0].kind == "taint"
    assert explanation.groups[0].request is not None
    assert explanation.groups[0].request.taints == (("sick=yes:NoSchedule", 2),)
    assert "sick=yes:NoSchedule on 2" in summary(explanation)


def test_the_holders_of_devices_are_named() -> None:
    """By the keys under which the devices are held."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    state.hold("ns/other", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])

    explanation = why(state, claim("c", device_request()))

    assert explanation.groups[0].kind == "busy"
    assert "held by ns/other" in summary(explanation)
    assert explanation.nearest is not None
    assert explanation.nearest.missing == ("held by ns/other",)


def test_an_exceeded_counter_is_named_with_the_missing_amount() -> None:
    """The users of the chip are named too."""
    state = cluster(*chips("n1"))
    state.hold("ns/other", [DeviceResult("r", DeviceId(GPU, "n1", "chip-0-part-0"))])

    explanation = why(state, claim("c", device_request(kind="whole")))

    assert explanation.groups[0].kind == "counters"
    assert "units short of at least 1" in summary(explanation)
    assert "ns/other" in summary(explanation)


def test_a_constraint_is_named_with_its_attribute_values() -> None:
    """Each value comes with its number of free devices."""
    rows = [
        device(f"gpu-{index}") | {"attributes": {"kind": {"string": "gpu"}, "numa": {"int": index // 2}}}
        for index in range(4)
    ]
    state = cluster(device_slice("s", "n1", rows))

    explanation = why(
        state, claim("c", device_request(count=3), constraints=[{"matchAttribute": f"{GPU}/numa"}])
    )

    assert explanation.groups[0].kind == "constraint"
    assert explanation.groups[0].constraint is not None
    assert explanation.groups[0].constraint.values == (("0", 2), ("1", 2))
    assert f"matchAttribute {GPU}/numa needs 3 devices" in summary(explanation)
    assert explanation.nearest is not None
    assert explanation.nearest.missing == (f"2 free devices have {GPU}/numa 0 where 3 must agree",)


def test_enough_devices_on_several_nodes_are_reported_with_the_most_on_one_node() -> None:
    """All devices of a claim come from one node."""
    nodes = ("n1", "n2", "n3")
    state = cluster(
        *(device_slice(name, name, [device("gpu-0"), device("gpu-1")]) for name in nodes), nodes=nodes
    )

    explanation = why(state, claim("c", device_request(count=3)))

    assert explanation.groups[0].request is not None
    assert explanation.groups[0].request.matching == 6
    assert "at most 2 on one node" in summary(explanation)


def test_nodes_with_equal_diagnoses_make_one_group_and_the_nearest_group_comes_first() -> None:
    """Full nodes precede nodes without such devices; nodes without any device come last."""
    nodes = [f"n{index}" for index in range(6)]
    state = cluster(
        *(device_slice(name, name, [device("gpu-0")]) for name in nodes[:2]),
        *(device_slice(name, name, [device("gpu-0", "old")]) for name in nodes[2:5]),
        nodes=nodes,
    )
    for name in nodes[:2]:
        state.hold(name, [DeviceResult("r", DeviceId(GPU, name, "gpu-0"))])

    explanation = why(state, claim("c", device_request()))

    assert [(group.kind, group.count) for group in explanation.groups] == [
        ("busy", 2),
        ("selector", 3),
        ("nothing", 1),
    ]
    assert "2 of 6 nodes" in summary(explanation)
    assert "n0, n1" in render(explanation)


def test_a_summary_never_exceeds_the_bound_of_an_event_note() -> None:
    """The bound holds for selectors of any length."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    long = " && ".join(f'{A}.kind != "{index}{"x" * 50}"' for index in range(40)) + " && false"

    explanation = why(state, claim("c", device_request(selectors=[{"cel": {"expression": long}}] * 3)))

    assert len(summary(explanation)) <= 1000


def test_a_shared_diagnosis_names_the_current_claim_and_the_current_holders() -> None:
    """Diagnoses are shared by equal node states; claim and holders are those of the current call."""
    slices = [device_slice(name, name, [device("gpu-0"), device("gpu-1")]) for name in ("n1", "n2", "n3")]
    nodes = ("n1", "n2", "n3")
    state = cluster(*slices, nodes=nodes)
    ids = [DeviceId(GPU, node, f"gpu-{number}") for node in nodes for number in range(2)]

    for turn, holder in enumerate(("a", "b")):
        fresh = cluster(*slices, nodes=nodes)
        for known in (state, fresh):
            for number, one in enumerate(ids):
                known.hold(f"{holder}-{number}", [DeviceResult("r", one)])
        demand = Demand((claim(f"c{turn}", device_request()),))
        kept, expected = allocate(state, demand), allocate(fresh, demand)
        assert isinstance(kept, Refusal)
        assert kept == expected
        request = kept.explanation.groups[0].request
        assert request is not None
        assert request.claim == f"ns/c{turn}"
        assert request.holders[0].startswith(holder)
        for number in range(len(ids)):
            state.release(f"{holder}-{number}")


def test_nodes_that_fail_on_different_alternatives_make_different_groups() -> None:
    """Their selectors differ, so their counts have no common sum."""
    devices = [device("gpu-0", "a100")]
    other = device_slice("s2", "n2", [device("gpu-0", "h100")])
    state = cluster(device_slice("s1", "n1", devices), other, nodes=("n1", "n2"))
    alternatives = [
        {**device_request(kind="a100", count=2)["exactly"], "name": "old"},
        {
            "name": "new",
            "deviceClassName": "any",
            "count": 2,
            "selectors": [{"cel": {"expression": text}} for text in (f'{A}.kind == "h100"', "true", "true")],
        },
    ]

    explanation = why(state, claim("c", {"name": "r", "firstAvailable": alternatives}))

    steps = {group.request.request: len(group.request.steps) for group in explanation.groups if group.request}
    assert steps.keys() == {"r/old", "r/new"}


def test_a_device_left_out_after_a_failure_is_the_reason_and_not_the_number_of_requests() -> None:
    """One request, one free device, which is left out: nothing is said of requests that do not fit together."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    demand = Demand((claim("c", device_request()),), excluded=frozenset({DeviceId(GPU, "n1", "gpu-0")}))
    refusal = allocate(state, demand)
    assert isinstance(refusal, Refusal)
    text = summary(refusal.explanation)
    assert "left out for a while, because they failed" in text
    assert "all of them together" not in text


@pytest.mark.parametrize("excluded", [frozenset[DeviceId](), frozenset({DeviceId(GPU, "n2", "gpu-0")})])
def test_nothing_is_said_of_failed_devices_where_none_failed(excluded: frozenset[DeviceId]) -> None:
    """Two requests for one device, of a demand that only few nodes may serve: nodes that are looked at by themselves were taken for such with failed devices."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    two = claim("c", device_request("a"), device_request("b"))
    refusal = allocate(state, Demand((two,), nodes=frozenset({"n1"}), excluded=excluded))
    assert isinstance(refusal, Refusal)
    text = summary(refusal.explanation)
    assert "not all of them together" in text
    assert "failed" not in text


def test_a_failed_device_is_not_the_reason_where_it_would_not_be_enough() -> None:
    """Two requests for one device, which is left out."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    two = claim("c", device_request("a"), device_request("b"))
    refusal = allocate(state, Demand((two,), excluded=frozenset({DeviceId(GPU, "n1", "gpu-0")})))
    assert isinstance(refusal, Refusal)
    assert "failed" not in summary(refusal.explanation)


def test_a_long_nearest_miss_does_not_cut_off_the_reason_of_other_nodes() -> None:
    """An Event has 1000 characters: why other nodes can never serve matters more than how near one is that is full."""

    def node(count: int, text: str) -> NodeGroup:
        return NodeGroup("selector", count, ("n",), message=text)

    nearest = NearestMiss(
        "n1", "d/p/gpu-0", "ns/c", "gpu", tuple(f"counter {each} is short of 4" * 5 for each in "abc")
    )
    groups = (
        node(2, "request gpu: held by " + "claim " * 110),
        node(1, "request nic: no device has networkDevice"),
    )
    text = summary(Explanation(("ns/c",), 3, 3, groups, nearest))
    assert "1 of 3 nodes: request nic: no device has networkDevice. nearest: d/p/gpu-0 on n1" in text
    assert len(text) == 1000
    short = summary(Explanation(("ns/c",), 3, 3, groups[1:], nearest))
    assert short.startswith("1 of 3 nodes: request nic: no device has networkDevice. nearest: ")
