"""Effects of a ladder on the chosen node and devices, and their limits."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import DEFAULT, Ladder, Rung
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import ladder_of
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.api.policy import DEFAULT_POLICY, AllocationPolicySpec
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from tests.allocator.builders import (
    GPU,
    NUMA,
    ROOT,
    Raw,
    claim,
    cluster,
    device_at,
    device_request,
    device_slice,
)
from tests.steps import Steps

LADDER = Ladder((Rung(ROOT), Rung(NUMA)))


def node(name: str, roots: str) -> Slice:
    """Return a node with one GPU per letter: the letter is its PCIe root, upper case its second NUMA node."""
    return device_slice(
        name, name, [device_at(i, ord(root.lower()), int(root.isupper())) for i, root in enumerate(roots)]
    )


def chosen(
    state: State, *claims: Claim, ladder: Ladder | None = LADDER, strategy: Strategy = Strategy.PACK
) -> Decision:
    """Return the decision; fails on a refusal."""
    found = allocate(state, Demand(claims), Terms(strategy, ladder=ladder))
    assert isinstance(found, Decision), found
    return found


def names(decision: Decision) -> list[str]:
    """Return the names of the chosen devices."""
    return sorted(result.device.name for one in decision.allocations for result in one.results)


def test_a_node_with_a_closer_set_precedes_the_node_of_the_strategy() -> None:
    """The fuller node has its free devices on different roots; only scope Node allows it."""
    state = cluster(node("full", "ab"), node("empty", "aabb"), nodes=("full", "empty"))
    pair = claim("c", device_request(count=2))

    assert chosen(state, pair).node == "empty"
    assert chosen(state, pair, ladder=Ladder(LADDER.rungs, across=False)).node == "full"
    assert chosen(state, pair, ladder=None).node == "full"
    assert chosen(state, claim("c", device_request())).node == "full"


def test_with_scope_node_the_closest_set_of_the_strategys_node_is_chosen() -> None:
    """Without a ladder the strategy takes the first two."""
    state = cluster(node("n1", "abBb"))

    found = chosen(state, claim("c", device_request(count=2)), ladder=Ladder(LADDER.rungs, across=False))

    assert names(found) in (["gpu-1", "gpu-2"], ["gpu-1", "gpu-3"])


def test_a_request_with_admin_access_does_not_keep_the_others_from_closer_devices() -> None:
    """Its device counts for no distance: it takes nothing from anybody."""
    state = cluster(node("n1", "aBCa"))
    watching = device_request("watch", adminAccess=True)

    found = chosen(state, claim("c", device_request(count=3), watching))

    used = [row.device.name for one in found.allocations for row in one.results if not row.admin_access]
    assert {"gpu-0", "gpu-3"} < set(used)


def test_claims_of_one_pod_get_devices_close_to_each_other() -> None:
    """A GPU and a NIC of two claims get the same PCIe root."""
    rows = [
        device_at(0, 0, 0),
        device_at(1, 1, 0),
        device_at(2, 2, 1),
        device_at(0, 3, 0, "nic"),
        device_at(1, 2, 1, "nic"),
    ]
    state = cluster(device_slice("n1", "n1", rows))

    assert names(chosen(state, claim("a", device_request()), claim("b", device_request(kind="nic")))) == [
        "gpu-2",
        "nic-1",
    ]


def test_a_rung_may_have_another_attribute_per_driver() -> None:
    """Without `perDriver` the two drivers have no attribute in common."""
    rows = [device_at(0, 0, 0, socket={"int": 0}), device_at(1, 1, 1, socket={"int": 1})]
    other = Slice.from_json(
        {
            "metadata": {"name": "nics", "uid": "nics"},
            "spec": {
                "driver": "nic.example.com",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n1",
                "devices": [{"name": "nic-0", "attributes": {"cpuSocket": {"int": 1}}}],
            },
        }
    )
    state = cluster(device_slice("n1", "n1", rows), other)
    state.put_class(state.classes["any"].__class__.from_json({"metadata": {"name": "every"}, "spec": {}}))
    nic = device_request("n", deviceClassName="every") | {}
    nic["exactly"]["selectors"] = [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]
    pair = claim("c", device_request(), nic)
    named = Rung(f"{GPU}/socket", per_driver=(("nic.example.com", "nic.example.com/cpuSocket"),))

    assert names(chosen(state, pair, ladder=Ladder((named,)))) == ["gpu-1", "nic-0"]
    assert names(chosen(state, pair, ladder=Ladder((Rung(f"{GPU}/socket"),)))) == ["gpu-0", "nic-0"]


def test_constraints_and_earlier_alternatives_precede_closeness() -> None:
    """A constraint on the NUMA node precedes a closer pair; an earlier alternative precedes a closer one."""
    rows = [
        device_at(0, 0, 0),
        device_at(1, 0, 1),
        device_at(2, 1, 1),
        device_at(3, 2, 0, "rare"),
        device_at(4, 3, 1, "rare"),
        device_at(5, 4, 1, "rare"),
    ]
    state = cluster(device_slice("n1", "n1", rows))
    tied = claim("c", device_request(count=2), constraints=[{"matchAttribute": NUMA}])
    first = claim("c", {"name": "r", "firstAvailable": [alternative("rare", 3), alternative("gpu", 2)]})

    assert names(chosen(state, claim("c", device_request(count=2)))) == ["gpu-0", "gpu-1"]
    assert names(chosen(state, tied)) == ["gpu-1", "gpu-2"]
    assert names(chosen(state, first)) == ["rare-3", "rare-4", "rare-5"]


def alternative(kind: str, count: int) -> Raw:
    """Return one alternative of a request."""
    exact = device_request(kind=kind, count=count)["exactly"]
    return {"name": kind, **exact}


def test_first_fit_ignores_the_ladder() -> None:
    """FirstFit chooses the devices that kube-scheduler chooses."""
    state = cluster(node("n1", "abb"))

    assert names(chosen(state, claim("c", device_request(count=2)), strategy=Strategy.FIRST_FIT)) == [
        "gpu-0",
        "gpu-1",
    ]
    assert names(chosen(state, claim("c", device_request(count=2)))) == ["gpu-1", "gpu-2"]


def test_devices_are_taken_in_the_order_of_fill() -> None:
    """The order for rings of four is 1, 3, 2, 4 free devices, also among nodes."""
    ring = Rung(ROOT, fill=True, order=((1, (1, 3, 2, 4)), (2, (2, 4, 3))))
    state = cluster(node("n1", "aaaabbbb"), node("n2", "aaaabbbb"), nodes=("n1", "n2"))
    hold(state, "n1", 0, 4, 5)  # 3 and 2 free
    hold(state, "n2", 4, 5)  # 4 and 2 free
    ladder = Ladder((ring,))

    assert (
        chosen(state, claim("c", device_request()), ladder=ladder).node,
        names(chosen(state, claim("c", device_request()), ladder=ladder))[0] in {"gpu-1", "gpu-2", "gpu-3"},
    ) == ("n1", True)
    assert names(chosen(state, claim("c", device_request(count=2)), ladder=ladder)) == ["gpu-6", "gpu-7"]
    hold(state, "n1", 6)
    hold(state, "n2", 6)
    # Free per ring: 3 and 1 on n1, 4 and 1 on n2. By the order, a ring with three free is used last.
    two = chosen(state, claim("c", device_request(count=2)), ladder=ladder)
    assert (two.node, names(two)) == ("n2", ["gpu-0", "gpu-1"])


def hold(state: State, name: str, *indices: int) -> None:
    """Hold devices of a node."""
    for index in indices:
        state.hold(f"{name}/{index}", [DeviceResult("r", DeviceId(GPU, name, f"gpu-{index}"))])


def test_shares_of_one_device_are_on_the_closest_level() -> None:
    """Without a ladder Spread gives each claim another device."""
    rows = [
        device_at(index, index, index)
        | {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
        for index in range(2)
    ]
    state = cluster(device_slice("n1", "n1", rows))
    share = device_request(capacity={"requests": {"memory": "1"}})
    two = claim("a", share), claim("b", share)

    assert names(chosen(state, *two, ladder=None, strategy=Strategy.SPREAD)) == ["gpu-0", "gpu-1"]
    assert len(set(names(chosen(state, *two, strategy=Strategy.SPREAD)))) == 1


def test_a_closer_device_is_left_to_a_request_of_mode_all() -> None:
    """One of the closer devices matches the first request, but the second request needs all of them."""
    state = cluster(
        device_slice("n1", "n1", [device_at(0, 0, 0), device_at(1, 0, 2), device_at(2, 1, 2, "other")])
    )
    every = device_request("all", allocationMode="All")
    del every["exactly"]["count"]

    found = chosen(state, claim("c", device_request("one", kind=""), every))

    assert sorted((row.request, row.device.name) for row in found.allocations[0].results) == [
        ("all", "gpu-0"),
        ("all", "gpu-1"),
        ("one", "other-2"),
    ]


def test_closeness_precedes_preferred_devices() -> None:
    """Closeness precedes preference; among equally close sets the preferred device decides, also on equal nodes."""
    state = cluster(node("n1", "aabb"), node("n2", "aabb"), nodes=("n1", "n2"))
    pair = claim("c", device_request(count=2))

    def preferring(*devices: tuple[str, int]) -> Decision:
        wanted = {DeviceId(GPU, name, f"gpu-{index}"): 1 for name, index in devices}
        found = allocate(state, Demand((pair,)), Terms(ladder=LADDER), prefer=wanted)
        assert isinstance(found, Decision)
        return found

    first, second, both = preferring(("n2", 2)), preferring(("n2", 3)), preferring(("n1", 0), ("n1", 2))
    assert [(each.node, names(each)) for each in (first, second)] == [("n2", ["gpu-2", "gpu-3"])] * 2
    assert both.node == "n1"
    assert names(both) in (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"])
    assert names(preferring(("n1", 2), ("n2", 2))) == ["gpu-2", "gpu-3"]
    assert names(preferring(("n1", 0), ("n2", 0))) == ["gpu-0", "gpu-1"]


def test_ladder_of_reads_every_field_of_a_policy() -> None:
    """Without a ladder in the policy the default applies; an empty one disables it."""
    spec = {"deviceClasses": {"names": ["x"]}}

    assert ladder_of(DEFAULT_POLICY) == DEFAULT
    assert ladder_of(AllocationPolicySpec.from_json(spec | {"ladder": []})) is None
    made = ladder_of(
        AllocationPolicySpec.from_json(
            spec
            | {
                "ladderScope": "Node",
                "ladder": [
                    {
                        "attribute": "a.dev/x",
                        "drivers": ["a.dev"],
                        "perDriver": [{"driver": "b.dev", "attribute": "b.dev/y"}],
                        "fill": {"order": [{"take": 1, "free": [2, 1]}]},
                        "split": "Even",
                    }
                ],
            }
        )
    )
    rung = Rung(
        "a.dev/x", frozenset(["a.dev"]), (("b.dev", "b.dev/y"),), fill=True, order=((1, (2, 1)),), even=True
    )
    assert made == Ladder((rung,), across=False)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 12, 31])
def test_a_topology_without_symmetry_is_searched_within_the_step_budget(count: int) -> None:
    """64 devices with unrelated values on three levels: the same decision twice; the more devices a step compares, the fewer steps there are."""
    rows = [device_at(i, i * 7 % 13, i * 5 % 11, **{f"{GPU}/x": {"int": i * 3 % 17}}) for i in range(64)]
    ladder = Ladder((*LADDER.rungs, Rung(f"{GPU}/x")))

    def once() -> tuple[Decision, int]:
        state, wanted = cluster(device_slice("n1", "n1", rows)), claim("c", device_request(count=count))
        with Steps() as counted:
            found = chosen(state, wanted, ladder=ladder)
        return found, counted.count

    (first, _), (second, calls) = once(), once()

    assert first == second
    assert len(names(first)) == count
    assert calls < 400_000
