"""What a ladder decides, and what it leaves alone."""

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.closest import STEPS
from apportion.allocator.closeness.ladder import DEFAULT, Ladder, Rung, ladder_of
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.api.policy import DEFAULT_POLICY, AllocationPolicySpec
from apportion.cli.allocate import command
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, Raw, claim, cluster, device, piece, want

ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
LADDER = Ladder((Rung(ROOT), Rung(NUMA)))


def gpu(index: int, root: int, numa: int, kind: str = "gpu", **more: Raw) -> Raw:
    """Return a device at a place."""
    attributes: Raw = {"kind": {"string": kind}, ROOT: {"string": f"root-{root}"}, NUMA: {"int": numa}}
    return device(f"{kind}-{index}", attributes=attributes | more)


def node(name: str, roots: str) -> Slice:
    """Return a node with a GPU per letter: its PCIe root, and the NUMA node by case."""
    return piece(name, name, [gpu(i, ord(root.lower()), int(root.isupper())) for i, root in enumerate(roots)])


def chosen(
    state: State, *claims: Claim, ladder: Ladder | None = LADDER, strategy: Strategy = Strategy.PACK
) -> Decision:
    """Return the decision; there must be one."""
    found = allocate(state, Demand(claims), Terms(strategy, ladder=ladder))
    assert isinstance(found, Decision), found
    return found


def names(decision: Decision) -> list[str]:
    """Return the chosen devices by name."""
    return sorted(result.device.name for one in decision.allocations for result in one.results)


def test_a_node_where_the_set_is_closer_wins_over_the_strategy() -> None:
    """The fuller node has its two free devices on different roots; with scope Node it is taken all the same."""
    state = cluster(node("full", "ab"), node("empty", "aabb"), nodes=("full", "empty"))
    pair = claim("c", want(count=2))

    assert chosen(state, pair).node == "empty"
    assert chosen(state, pair, ladder=Ladder(LADDER.rungs, across=False)).node == "full"
    assert chosen(state, pair, ladder=None).node == "full"
    assert chosen(state, claim("c", want())).node == "full"


def test_with_scope_node_the_devices_are_close_on_the_node_of_the_strategy() -> None:
    """The strategy alone would take the first two."""
    state = cluster(node("n1", "abBb"))

    found = chosen(state, claim("c", want(count=2)), ladder=Ladder(LADDER.rungs, across=False))

    assert names(found) in (["gpu-1", "gpu-2"], ["gpu-1", "gpu-3"])


def test_claims_of_one_pod_are_drawn_together() -> None:
    """A GPU and a NIC of two claims meet on a root."""
    rows = [gpu(0, 0, 0), gpu(1, 1, 0), gpu(2, 2, 1), gpu(0, 3, 0, "nic"), gpu(1, 2, 1, "nic")]
    state = cluster(piece("n1", "n1", rows))

    assert names(chosen(state, claim("a", want()), claim("b", want(kind="nic")))) == ["gpu-2", "nic-1"]


def test_drivers_may_call_a_level_by_names_of_their_own() -> None:
    """Without the second name the two have nothing in common."""
    rows = [gpu(0, 0, 0, socket={"int": 0}), gpu(1, 1, 1, socket={"int": 1})]
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
    state = cluster(piece("n1", "n1", rows), other)
    state.put_class(state.classes["any"].__class__.from_json({"metadata": {"name": "every"}, "spec": {}}))
    nic = want("n", deviceClassName="every") | {}
    nic["exactly"]["selectors"] = [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]
    pair = claim("c", want(), nic)
    named = Rung(f"{GPU}/socket", per_driver=(("nic.example.com", "nic.example.com/cpuSocket"),))

    assert names(chosen(state, pair, ladder=Ladder((named,)))) == ["gpu-1", "nic-0"]
    assert names(chosen(state, pair, ladder=Ladder((Rung(f"{GPU}/socket"),)))) == ["gpu-0", "nic-0"]


def test_what_must_be_stays_and_comes_first() -> None:
    """A constraint on the NUMA node beats a nearer pair on the same root; an earlier alternative beats a nearer one."""
    rows = [
        gpu(0, 0, 0),
        gpu(1, 0, 1),
        gpu(2, 1, 1),
        gpu(3, 2, 0, "rare"),
        gpu(4, 3, 1, "rare"),
        gpu(5, 4, 1, "rare"),
    ]
    state = cluster(piece("n1", "n1", rows))
    tied = claim("c", want(count=2), constraints=[{"matchAttribute": NUMA}])
    first = claim("c", {"name": "r", "firstAvailable": [way("rare", 3), way("gpu", 2)]})

    assert names(chosen(state, claim("c", want(count=2)))) == ["gpu-0", "gpu-1"]
    assert names(chosen(state, tied)) == ["gpu-1", "gpu-2"]
    assert names(chosen(state, first)) == ["rare-3", "rare-4", "rare-5"]


def way(kind: str, count: int) -> Raw:
    """Return one alternative."""
    exact = want(kind=kind, count=count)["exactly"]
    return {"name": kind, **exact}


def test_first_fit_pays_no_attention_to_it() -> None:
    """It takes what kube-scheduler would take."""
    state = cluster(node("n1", "abb"))

    assert names(chosen(state, claim("c", want(count=2)), strategy=Strategy.FIRST_FIT)) == ["gpu-0", "gpu-1"]
    assert names(chosen(state, claim("c", want(count=2)))) == ["gpu-1", "gpu-2"]


def test_one_device_is_taken_where_the_policy_fills_first() -> None:
    """By the table for rings of four: 1, 3, 2, 4 free; also among nodes."""
    ring = Rung(ROOT, fill=True, order=((1, (1, 3, 2, 4)), (2, (2, 4, 3))))
    state = cluster(node("n1", "aaaabbbb"), node("n2", "aaaabbbb"), nodes=("n1", "n2"))
    hold(state, "n1", 0, 4, 5)  # 3 and 2 free
    hold(state, "n2", 4, 5)  # 4 and 2 free
    ladder = Ladder((ring,))

    assert (
        chosen(state, claim("c", want()), ladder=ladder).node,
        names(chosen(state, claim("c", want()), ladder=ladder))[0] in {"gpu-1", "gpu-2", "gpu-3"},
    ) == ("n1", True)
    assert names(chosen(state, claim("c", want(count=2)), ladder=ladder)) == ["gpu-6", "gpu-7"]
    hold(state, "n1", 6)
    hold(state, "n2", 6)
    # Three and one free, four and one: a ring of three is broken last.
    two = chosen(state, claim("c", want(count=2)), ladder=ladder)
    assert (two.node, names(two)) == ("n2", ["gpu-0", "gpu-1"])


def hold(state: State, name: str, *indices: int) -> None:
    """Let devices be in use."""
    for index in indices:
        state.hold(f"{name}/{index}", [DeviceResult("r", DeviceId(GPU, name, f"gpu-{index}"))])


def test_shares_of_one_device_are_as_close_as_can_be() -> None:
    """Spread would give each claim a device of its own."""
    rows = [
        gpu(index, index, index) | {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
        for index in range(2)
    ]
    state = cluster(piece("n1", "n1", rows))
    share = want(capacity={"requests": {"memory": "1"}})
    two = claim("a", share), claim("b", share)

    assert names(chosen(state, *two, ladder=None, strategy=Strategy.SPREAD)) == ["gpu-0", "gpu-1"]
    assert len(set(names(chosen(state, *two, strategy=Strategy.SPREAD)))) == 1


def test_all_stays_all() -> None:
    """One of the near devices would do for the first request, but the second one needs every one of them."""
    state = cluster(piece("n1", "n1", [gpu(0, 0, 0), gpu(1, 0, 2), gpu(2, 1, 2, "other")]))
    every = want("all", allocationMode="All")
    del every["exactly"]["count"]

    found = chosen(state, claim("c", want("one", kind=""), every))

    assert sorted((row.request, row.device.name) for row in found.allocations[0].results) == [
        ("all", "gpu-0"),
        ("all", "gpu-1"),
        ("one", "other-2"),
    ]


def test_a_preferred_device_does_not_draw_a_set_apart() -> None:
    """Closeness lasts longer than a cut takes; among equally close sets the preferred one wins, on alike nodes too."""
    state = cluster(node("n1", "aabb"), node("n2", "aabb"), nodes=("n1", "n2"))
    pair = claim("c", want(count=2))

    def preferring(*devices: tuple[str, int]) -> Decision:
        wanted = {DeviceId(GPU, name, f"gpu-{index}"): 1 for name, index in devices}
        found = allocate(state, Demand((pair,)), Terms(ladder=LADDER), prefer=wanted)
        assert isinstance(found, Decision)
        return found

    first, again, both = preferring(("n2", 2)), preferring(("n2", 3)), preferring(("n1", 0), ("n1", 2))
    assert [(each.node, names(each)) for each in (first, again)] == [("n2", ["gpu-2", "gpu-3"])] * 2
    assert both.node == "n1"
    assert names(both) in (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"])
    assert names(preferring(("n1", 2), ("n2", 2))) == ["gpu-2", "gpu-3"]
    assert names(preferring(("n1", 0), ("n2", 0))) == ["gpu-0", "gpu-1"]


def test_policies_become_ladders() -> None:
    """None: the usual one. Empty: none at all."""
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


@pytest.mark.parametrize("count", [3, 12, 31])
def test_a_node_with_no_two_places_alike_is_searched_within_bounds(count: int) -> None:
    """Sixty-four devices on places that overlap without order: an answer comes, the same twice, in bounded steps."""
    rows = [gpu(i, i * 7 % 13, i * 5 % 11, **{f"{GPU}/x": {"int": i * 3 % 17}}) for i in range(64)]
    ladder = Ladder((*LADDER.rungs, Rung(f"{GPU}/x")))

    first, again = (
        chosen(cluster(piece("n1", "n1", rows)), claim("c", want(count=count)), ladder=ladder)
        for _ in range(2)
    )

    assert first == again
    assert len(names(first)) == count
    assert STEPS <= 2_000


def test_the_offline_command_tries_a_policy(tmp_path: Path) -> None:
    """With its ladder the pair is closer; what is wrong with a policy is told by its field."""
    rows = [gpu(0, 0, 0), gpu(1, 1, 1), gpu(2, 1, 1)]
    spec = {"driver": GPU, "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}
    pair = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 2}}
    world = tmp_path / "world.json"
    world.write_text(
        json.dumps(
            {
                "classes": [{"metadata": {"name": "any"}, "spec": {}}],
                "slices": [{"metadata": {"name": "s"}, "spec": spec | {"devices": rows}}],
                "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [pair]}}}],
            }
        )
    )
    policy = tmp_path / "policy.yaml"
    app = typer.Typer()
    app.command()(command)

    def ask(ladder: list[Raw]) -> Result:
        spec = {"deviceClasses": {"names": ["any"]}, "strategy": "Pack", "ladder": ladder}
        policy.write_text(json.dumps({"kind": "AllocationPolicy", "spec": spec}))
        return CliRunner().invoke(app, ["-f", str(world), "-o", "json", "--policy", str(policy)])

    def given(result: Result) -> list[str]:
        rows = json.loads(result.stdout)["results"][0]["devices"]["results"]
        return [row["device"] for row in rows]

    assert given(ask([{"attribute": ROOT}])) == ["gpu-1", "gpu-2"]
    refused = ask([{"attribute": "numaNode"}])
    assert refused.exit_code == 2
    assert "ladder[0].attribute" in refused.output
