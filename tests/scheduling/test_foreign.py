"""Allocations of managed devices by others: reported once."""

from itertools import pairwise

from apportion.cluster.client import Client
from apportion.cluster.kinds import POLICIES
from apportion.scheduling.pace import AT_ONCE
from apportion.scheduling.reports.foreignallocations import ForeignAllocations
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
    """A pass costs the same however many there are, but for a gauge that is set when the clock says so."""
    counts = []
    for count in (2, 20):
        world = with_foreign(count)
        cycle = world.cycle(unanswered)
        cycle.once()
        assert sorted(world.warned) == sorted((f"c{n}", "ForeignAllocation") for n in range(count))
        counts.append(steps(cycle.once))
        assert len(world.warned) == count
    assert abs(counts[0] - counts[1]) < 20 - 2


async def test_a_status_of_a_policy_reports_none_anew(unanswered: Client) -> None:
    """The operator itself writes it, up to once a second."""
    world = with_foreign(3)
    policy = world.policy()
    cycle = world.cycle(unanswered)
    cycle.once()
    world.see(POLICIES, policy | {"status": {"conditions": []}})
    assert steps(cycle.once) == steps(cycle.once)
    assert len(world.warned) == 3


def test_others_run_while_many_are_looked_at() -> None:
    """A cluster that is moved over from kube-scheduler has thousands: one step for each few, and each is reported once."""
    world = with_foreign(AT_ONCE * 3)
    followed, found = ForeignAllocations(world.snapshot, manager="apportion"), list[str]()
    counts = [len(found) for _ in followed.steps(lambda claim: found.append(claim.uid))]
    assert len(found) == len(set(found)) == AT_ONCE * 3
    assert max(b - a for a, b in pairwise([0, *counts, len(found)])) <= AT_ONCE


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
