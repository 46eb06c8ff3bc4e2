"""Allocations of managed devices by others: reported once."""

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster
from tests.scheduling.overlapping import RESERVED
from tests.steps import steps


def with_foreign(count: int) -> ObservedCluster:
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    for number in range(count):
        claim = world.claim(f"c{number}")
        world.allocate(claim, "n1", f"gpu-{number}", by="kube-scheduler", reservedFor=RESERVED)
    return world


async def test_an_allocation_by_another_is_reported_once(unanswered: Client) -> None:
    """A pass costs the same however many there are."""
    counts = []
    for count in (2, 20):
        world = with_foreign(count)
        cycle = world.cycle(unanswered)
        cycle.once()
        assert sorted(world.warned) == sorted((f"c{n}", "ForeignAllocation") for n in range(count))
        counts.append(steps(cycle.once))
        assert len(world.warned) == count
    assert counts[0] == counts[1]


async def test_it_is_reported_when_its_class_becomes_managed(unanswered: Client) -> None:
    """Before, it was nobody's business."""
    world = with_foreign(0)
    world.device_class("theirs", unmanaged="yes")
    world.allocate(
        world.claim("c", {"name": "r", "exactly": {"deviceClassName": "theirs"}}),
        "n1",
        "x",
        by="kube-scheduler",
    )
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.warned == []
    world.policy(classes=["theirs"])
    cycle.once()
    assert world.warned == [("c", "ForeignAllocation")]
