"""What is written when slices differ: as little as possible, in an order that never shows a torn pool as whole."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.slices.changes import Owner, SliceChanges, slice_changes, slice_name
from apportion.agent.slices.nodeinventory import NodeInventory, held_for
from apportion.agent.slices.pool import DriverPool, SliceContent, pools
from apportion.api.contract import HELD
from tests.agent.places import DRIVERS, H100, MakeBackend, partition_place

BY_HAND = Owner("node-a", "uid-of-node-a")
TOTAL = 256 * 1024
"""Bytes of all annotations of an object (apimachinery, `TotalAnnotationSizeLimitB`)."""


@pytest.fixture
def backend(make_backend: MakeBackend) -> SimulatedBackend:
    """Two GPUs."""
    return make_backend(cards=[{"model": "H100-80GB", "count": 2}])


def pool_of(backend: SimulatedBackend, **fields: Any) -> DriverPool:
    """Return what the GPU driver should publish."""
    return pools(NodeInventory(cards=backend.devices(), **fields), DRIVERS)[0]


def server(todo: SliceChanges, live: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """Do what the API server does with a plan: uids, versions, timeAdded."""
    kept = {item["metadata"]["name"]: item for item in live}
    for item in todo.deletes:
        del kept[item["metadata"]["name"]]
    for body in (*todo.updates, *todo.creates):
        stored = copy.deepcopy(body)
        stored["metadata"] |= {"uid": f"uid-{stored['metadata']['name']}", "resourceVersion": "1"}
        for device in stored["spec"].get("devices", ()):
            for taint in device["taints"]:
                taint.setdefault("timeAdded", "2026-01-01T00:00:00Z")
        kept[stored["metadata"]["name"]] = stored
    return list(kept.values())


def shape(live: Sequence[dict[str, Any]]) -> set[tuple[int, int]]:
    """Return the generations and counts that the slices claim."""
    return {(s["spec"]["pool"]["generation"], s["spec"]["pool"]["resourceSliceCount"]) for s in live}


def test_a_new_pool_is_written_whole(backend: SimulatedBackend) -> None:
    """Every slice has the same generation, the right count, and the node as owner."""
    todo = slice_changes(pool_of(backend), [], BY_HAND)
    live = server(todo)
    assert len(todo.creates) == 3
    assert shape(live) == {(1, 3)}
    assert all(s["metadata"]["ownerReferences"][0]["uid"] == BY_HAND.uid for s in live)


def test_nothing_is_written_when_only_the_servers_additions_differ(backend: SimulatedBackend) -> None:
    """`timeAdded` is the API server's."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    assert not slice_changes(pool_of(backend), live, BY_HAND)


def test_one_changed_slice_keeps_the_generation(backend: SimulatedBackend) -> None:
    """A taint on one device of one card: one write, the pool stays whole all the time."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    todo = slice_changes(pool_of(backend, taints={"gpu-1": (held_for("a-claim"),)}), live, BY_HAND)
    assert [body["spec"]["pool"]["generation"] for body in todo.updates] == [1]
    assert not todo.creates
    assert not todo.deletes


def test_a_taint_that_stays_keeps_its_time(backend: SimulatedBackend) -> None:
    """An eviction's clock must not start anew because another taint came."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    todo = slice_changes(pool_of(backend, taints={"gpu-1": (held_for("a-claim"),)}), live, BY_HAND)
    guard, held = todo.updates[0]["spec"]["devices"][0]["taints"]
    assert guard["timeAdded"] == "2026-01-01T00:00:00Z"
    assert "timeAdded" not in held


def test_claims_without_a_taint_are_named_by_an_annotation_that_goes_with_the_last(
    backend: SimulatedBackend,
) -> None:
    """A slice of its own for each card has the names of its devices; nothing is written about annotations of others."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    assert not any("annotations" in each["metadata"] for each in live)
    several = pool_of(backend, untainted={"gpu-0": ("a", "b"), "gpu-1": ("c",)})
    live = server(slice_changes(several, live, BY_HAND), live)
    named = [each["metadata"]["annotations"] for each in live if "devices" in each["spec"]]
    assert named == [{HELD: "gpu-0/a gpu-0/b"}, {HELD: "gpu-1/c"}]
    for each in live:
        each["metadata"].setdefault("annotations", {})["example.com/of-others"] = "x"
    assert not slice_changes(several, live, BY_HAND)
    live = server(slice_changes(pool_of(backend, untainted={"gpu-1": ("c",)}), live, BY_HAND), live)
    first, second = (each["metadata"] for each in live if "devices" in each["spec"])
    assert HELD not in first.get("annotations", {})
    assert second["annotations"][HELD] == "gpu-1/c"


def test_an_annotation_names_as_many_claims_as_the_server_takes(backend: SimulatedBackend) -> None:
    """Names of any length that a taint's value may have, and more claims than ever share the GPUs of a slice."""
    pool = pool_of(backend, untainted={"gpu-0": tuple(f"{n:063}" for n in range(9_000))})
    texts = [
        body["metadata"].get("annotations", {}).get(HELD, "")
        for body in slice_changes(pool, [], BY_HAND).creates
    ]
    assert 200_000 < max(map(len, texts)) < TOTAL


def test_two_changed_slices_give_the_whole_pool_a_new_generation(backend: SimulatedBackend) -> None:
    """A reader never mixes old and new slices."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    change = pool_of(
        backend,
        taints={"gpu-1": (held_for("a-claim"),)},
        occupied=(partition_place(backend, "gpu-0", "1g.10gb", 0),),
    )
    todo = slice_changes(change, live, BY_HAND)
    assert shape(server(todo, live)) == {(2, 3)}


def test_a_wiped_pool_comes_back_with_a_newer_generation_than_ever_before(backend: SimulatedBackend) -> None:
    """A cache that still holds the old slices must not mix them with the new ones."""
    assert shape(server(slice_changes(pool_of(backend), [], BY_HAND, newest=7))) == {(8, 3)}


def test_a_half_finished_round_is_repaired(backend: SimulatedBackend) -> None:
    """Killed between two writes: two generations are live; the next round makes it one."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    live[0]["spec"]["pool"]["generation"] = 2
    assert shape(server(slice_changes(pool_of(backend), live, BY_HAND), live)) == {(3, 3)}


def test_a_slice_of_a_card_that_left_goes_first(backend: SimulatedBackend, make_backend: MakeBackend) -> None:
    """Obsolete slices are deleted before the rest is counted anew."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    smaller = pool_of(make_backend(cards=[H100]))
    todo = slice_changes(smaller, live, BY_HAND)
    assert [s["metadata"]["name"] for s in todo.deletes] == ["node-a-gpu.apportion.dev-card-01-00"]
    assert shape(server(todo, live)) == {(2, 2)}


def test_slices_of_a_former_node_of_that_name_get_the_new_owner(backend: SimulatedBackend) -> None:
    """Else garbage collection would take them with the old node."""
    live = server(slice_changes(pool_of(backend), [], BY_HAND))
    adopted = server(slice_changes(pool_of(backend), live, Owner("node-a", "other")), live)
    assert {s["metadata"]["ownerReferences"][0]["uid"] for s in adopted} == {"other"}


def test_names_of_slices_stay_within_253_characters() -> None:
    """And two long node names do not share one."""
    long = slice_name("n" * 253, "gpu.apportion.dev", "card-00-00")
    other = slice_name("n" * 252 + "m", "gpu.apportion.dev", "card-00-00")
    assert len(long) <= 253
    assert long != other


LABELS = st.from_regex(r"[ab](-?[ab]){0,3}", fullmatch=True)


@given(st.tuples(LABELS, LABELS), st.tuples(LABELS, LABELS))
@example(("a", "b-c"), ("a-b", "c"))
@example(("n1-fpga", "card.example.com"), ("n1", "fpga-card.example.com"))
def test_no_two_nodes_or_drivers_give_a_slice_one_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    """The second could not be made, and its devices never come."""
    assert (slice_name(*one, "devices-00") == slice_name(*other, "devices-00")) is (one == other)


def test_slices_that_an_agent_of_before_has_named_without_a_hash_stay() -> None:
    """No device is away for a moment, or there twice; what comes later has a name of its own."""
    contents = tuple(SliceContent(f"devices-0{number}", "devices", ()) for number in range(2))
    first = DriverPool("fpga-card.example.com", contents[:1])
    live = server(slice_changes(first, [], BY_HAND))
    live[0]["metadata"]["name"] = "node-a-fpga-card.example.com-devices-00"
    assert not slice_changes(first, live, BY_HAND)
    both = server(slice_changes(DriverPool(first.driver, contents), live, BY_HAND), live)
    assert {item["metadata"]["name"] for item in both} == {
        "node-a-fpga-card.example.com-devices-00",
        slice_name("node-a", first.driver, "devices-01"),
    }
    assert shape(both) == {(2, 2)}
