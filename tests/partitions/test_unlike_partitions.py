"""A slice offers a partition that no Partition object can stand for: only who wants that one goes without."""

from typing import Any

from apportion.cel import Programs
from apportion.cluster.kinds import SLICES
from apportion.partitions.actions import Create
from apportion.partitions.layoutplanner import layout_plans
from tests.observedcluster import ObservedCluster
from tests.partitions.layoutworld import cards
from tests.partitions.onecard import FIRST, HALF, OneCard


def publish(world: ObservedCluster, name: str, **fields: Any) -> None:
    """Publish a partition of the card with other fields."""
    raw = world.seen[SLICES, "", "n1-gpu-0-devices"]
    for device in raw["spec"]["devices"]:
        if device["name"] == name:
            device.update(fields)
    world.see(SLICES, raw)


def test_a_claim_gets_its_partition_though_another_ones_cannot_be_named() -> None:
    """Its profile has a blank, which the API of slices allows; the operator would end whenever it starts."""
    card = OneCard()
    attributes = {"type": {"string": "mig"}, "profile": {"string": "a profile"}}
    publish(card.world, FIRST, attributes=attributes)
    card.world.allocate(card.world.claim("wrong"), "n1", FIRST)
    card.world.allocate(card.world.claim("right"), "n1", HALF)
    (made,) = card.carry_out()
    assert isinstance(made, Create)
    assert made.partition.spec.device == HALF
    assert card.actions() == []


def test_a_layout_says_that_its_partition_cannot_be_named_and_another_one_is_carried_out() -> None:
    """It begins at a memory slice that no card has."""
    world = cards()
    taken = {f"memory-slice-{index}": {"value": "1"} for index in (*range(8), 64)}
    rows = [
        ("gpu-0", taken),
        *((f"gpu-0-mig-1g10gb-19-{start}", {"memory-slice-64": {"value": "1"}}) for start in range(7)),
    ]
    for name, counters in rows:
        publish(world, name, consumesCounters=[{"counterSet": "gpu-0-counter-set", "counters": counters}])
    world.layout({"profile": "1g.10gb", "count": 1}, name="a")
    world.layout(name="b")
    wrong, right = layout_plans(world.snapshot, Programs())
    assert "start" in str(wrong.broken)
    assert right.broken is None
    assert len(right.actions) == 1
