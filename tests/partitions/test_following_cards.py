"""What partitions need is the same, whether followed change by change or worked out anew."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster import kinds
from apportion.cluster.kinds import CLAIMS, PARTITIONS
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Action, Create, Delete, SetHolder
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.observedcluster import GPU, ObservedCluster
from tests.partitions.onecard import FIRST, HALF, SECOND

NODES = ("n1", "n2")
DEVICES = (FIRST, SECOND, HALF, "gpu-0")
STEPS = st.one_of(
    st.tuples(st.just("allocate"), st.integers(0, 3), st.sampled_from(NODES), st.sampled_from(DEVICES)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("carry out")),
    st.tuples(st.just("idle")),
    st.tuples(st.just("fail")),
    st.tuples(st.just("wipe"), st.sampled_from(NODES)),
    st.tuples(st.just("publish"), st.sampled_from(NODES)),
    st.tuples(st.just("warm"), st.integers(0, 4), st.integers(0, 2)),
    st.tuples(st.just("reserve"), st.sampled_from(NODES), st.sampled_from(DEVICES)),
    st.tuples(st.just("give back")),
    st.tuples(st.just("cordon"), st.sampled_from(NODES), st.booleans()),
)


@pytest.mark.slow
@given(st.lists(STEPS, max_size=25))
def test_following_changes_leads_where_a_new_look_leads(steps: list[Any]) -> None:
    """Allocations, slices, Partitions and policies come and go in any order; actions are carried out or are not."""
    world = ObservedCluster()
    world.device_class("gpu")
    for node in NODES:
        world.node(node)
        world.card(node)
    claims: dict[int, Any] = {slot: _unseen(slot, "first") for slot in range(4)}
    followed = DynamicPartitions(world.clock)
    for kind, *what in steps:
        match kind:
            case "allocate":
                claims[what[0]] = world.claim(f"c{what[0]}", uid=claims[what[0]]["metadata"]["uid"])
                world.allocate(claims[what[0]], what[1], what[2])
            case "end":
                world.gone(CLAIMS, claims[what[0]])
                claims[what[0]] = _unseen(what[0], str(world.version))
            case "carry out":
                _carry_out(world, followed.actions(world.snapshot))
            case "idle" | "fail":
                _show(world, "Idle" if kind == "idle" else "Failed")
            case "wipe":
                world.slice(what[0], f"{what[0]}-gpu-0-devices", {"devices": []}, 2)
            case "publish":
                world.card(what[0])
            case "warm":
                kept = zip(("1g.10gb", "3g.40gb"), what, strict=True)
                warm = [{"profile": profile, "count": count} for profile, count in kept if count]
                world.policy(partitions={"warm": warm})
            case "reserve":
                reserved = [DeviceResult("r", DeviceId(GPU, what[0], what[1]))]
                world.snapshot.state.hold("reserved", reserved)
            case "give back":
                world.snapshot.state.release("reserved")
            case "cordon":
                raw = {"metadata": {"name": what[0]}, "spec": {"unschedulable": what[1]}}
                world.see(kinds.NODES, raw)
        fresh = DynamicPartitions(world.clock).actions(world.snapshot)
        assert _names(followed.actions(world.snapshot)) == _names(fresh)


def without_room() -> tuple[ObservedCluster, list[Any], DynamicPartitions]:
    """Return cards that claims have whole, these claims, and who has looked in vain for room for a partition that is to be kept warm."""
    world = ObservedCluster()
    world.device_class("gpu")
    for node in NODES:
        world.node(node)
        world.card(node)
    whole = [world.allocate(world.claim(f"whole-{node}"), node, "gpu-0") for node in NODES]
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}]})
    followed = DynamicPartitions(world.clock)
    assert followed.actions(world.snapshot) == []
    return world, whole, followed


def test_a_warm_partition_goes_where_room_was_when_another_card_had_it_too() -> None:
    """Two cards get room at once, and the one that was chosen loses it before the partition is there."""
    world, whole, followed = without_room()
    for claim in whole:
        world.gone(CLAIMS, claim)
    (first,) = followed.actions(world.snapshot)
    world.allocate(world.claim("again"), first.partition.spec.node_name, "gpu-0")
    (second,) = followed.actions(world.snapshot)
    assert {each.partition.spec.node_name for each in (first, second)} == set(NODES)


def test_a_warm_partition_goes_where_room_came_while_none_was_missing() -> None:
    """Once all were there, every card may have room again."""
    world, whole, followed = without_room()
    world.gone(CLAIMS, whole[0])
    _carry_out(world, followed.actions(world.snapshot))
    world.gone(CLAIMS, whole[1])
    assert followed.actions(world.snapshot) == []
    world.allocate(world.claim("next"), "n1", "gpu-0")
    actions = followed.actions(world.snapshot)
    assert [a.partition.spec.node_name for a in actions if isinstance(a, Delete)] == ["n1"]
    assert [a.partition.spec.node_name for a in actions if isinstance(a, Create)] == ["n2"]


def _names(actions: list[Action]) -> list[str]:
    return sorted(f"{action!r}" for action in actions)


def _unseen(slot: int, uid: str) -> dict[str, Any]:
    """Return a claim that was not observed yet."""
    return {"metadata": {"namespace": "team", "name": f"c{slot}", "uid": f"claim-{uid}-{slot}"}}


def _carry_out(world: ObservedCluster, actions: list[Action]) -> None:
    for action in actions:
        raw = action.partition.to_json()
        match action:
            case Create():
                raw["metadata"]["uid"] = f"partition-{world.version}"
                world.see(PARTITIONS, raw | {"status": {"phase": "Ready"}})
            case SetHolder(holder=holder):
                raw["spec"] = {key: value for key, value in raw["spec"].items() if key != "holder"}
                if holder is not None:
                    raw["spec"]["holder"] = holder.to_json()
                world.see(PARTITIONS, raw)
            case Delete():
                world.gone(PARTITIONS, raw)


def _show(world: ObservedCluster, phase: str) -> None:
    for partition in list(world.snapshot.partitions.values()):
        world.see(PARTITIONS, partition.to_json() | {"status": {"phase": phase}})
