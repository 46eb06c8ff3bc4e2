"""Partitions kept warm, and nodes that no pod comes to: none is made there, and none counts there."""

import pytest

from apportion.cluster.kinds import NODES, PARTITIONS
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.observedcluster import Json, ObservedCluster
from tests.partitions.test_warm_failures import carry_out, two_cards

CORDONED = {"unschedulable": True}
DEAD = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}
DEDICATED = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}


def close(world: ObservedCluster, spec: Json | None) -> None:
    """Show the first node with this specification; None: it is gone."""
    raw = world.seen[NODES, "", "n1"]
    if spec is None:
        world.gone(NODES, raw)
    else:
        world.see(NODES, raw | {"spec": spec})


@pytest.mark.parametrize("spec", [CORDONED, DEAD, None])
def test_none_is_made_on_a_node_that_no_pod_comes_to(spec: Json | None) -> None:
    """The first node would be the first that it is tried on."""
    world = two_cards()
    close(world, spec)
    wanted = DynamicPartitions(world.clock)
    assert carry_out(world, wanted.actions(world.snapshot), dead="") == [("Create", "n2")]
    assert wanted.actions(world.snapshot) == []


def test_a_taint_that_pods_tolerate_closes_no_node() -> None:
    """As those of nodes with accelerators."""
    world = two_cards()
    close(world, DEDICATED)
    actions = DynamicPartitions(world.clock).actions(world.snapshot)
    assert carry_out(world, actions, dead="") == [("Create", "n1")]


@pytest.mark.parametrize("spec", [CORDONED, DEAD, None])
def test_one_on_a_node_that_closes_is_made_on_another_one_and_goes_when_its_time_is_over(
    spec: Json | None,
) -> None:
    """It counted as warm although nobody could have it. The node may open within its time."""
    world = two_cards()
    warm = [{"profile": "1g.10gb", "count": 1}]
    world.policy(partitions={"warm": warm, "idleTimeout": "1m"})
    wanted = DynamicPartitions(world.clock)

    def act() -> list[tuple[str, str]]:
        return carry_out(world, wanted.actions(world.snapshot), dead="")

    assert act() == [("Create", "n1")]
    assert act() == []
    close(world, spec)
    assert act() == [("Create", "n2")]
    assert act() == []
    world.clock.now += 61
    assert act() == [("Delete", "n1")]
    assert act() == []
    assert [p.spec.node_name for p in world.snapshot.partitions.values()] == ["n2"]


def test_one_on_a_node_that_opens_counts_once_more() -> None:
    """The younger one goes, once its time is over."""
    world = two_cards()
    warm = [{"profile": "1g.10gb", "count": 1}]
    world.policy(partitions={"warm": warm, "idleTimeout": "1m"})
    wanted = DynamicPartitions(world.clock)
    carry_out(world, wanted.actions(world.snapshot), dead="")
    close(world, CORDONED)
    carry_out(world, wanted.actions(world.snapshot), dead="")
    close(world, {})
    assert wanted.actions(world.snapshot) == []
    world.clock.now += 61
    assert len(carry_out(world, wanted.actions(world.snapshot), dead="")) == 1
    assert wanted.actions(world.snapshot) == []


def test_what_had_no_room_is_made_when_a_node_opens() -> None:
    """No card changes then."""
    world = two_cards()
    close(world, CORDONED)
    world.see(NODES, world.seen[NODES, "", "n2"] | {"spec": DEAD})
    wanted = DynamicPartitions(world.clock)
    assert wanted.actions(world.snapshot) == []
    assert wanted.short() == {"1g.10gb": 1}
    close(world, {})
    assert carry_out(world, wanted.actions(world.snapshot), dead="") == [("Create", "n1")]
    assert world.snapshot.partitions.keys() == {
        raw["metadata"]["uid"] for (kind, *_), raw in world.seen.items() if kind == PARTITIONS
    }


PLUGIN = {"key": "apportion.dev/device-plugin", "effect": "NoSchedule"}


def test_none_is_made_or_counts_on_a_card_with_a_taint() -> None:
    """Nobody could have it: a device plugin offers the card as well, it is sick, or it has a partition by hand."""
    world = two_cards()
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}], "idleTimeout": "1m"})
    wanted = DynamicPartitions(world.clock)
    assert carry_out(world, wanted.actions(world.snapshot), dead="") == [("Create", "n1")]
    world.card("n1", taints=[PLUGIN])
    assert carry_out(world, wanted.actions(world.snapshot), dead="") == [("Create", "n2")]
    assert wanted.actions(world.snapshot) == []
    world = two_cards()
    world.card("n1", taints=[PLUGIN])
    wanted = DynamicPartitions(world.clock)
    assert carry_out(world, wanted.actions(world.snapshot), dead="") == [("Create", "n2")]
