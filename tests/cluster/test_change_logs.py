"""Logs of changes: as long as it takes to look at all that there is, and no longer."""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.changes import LEAST_CHANGES
from apportion.cluster.indexes.claimindex import ClaimIndex
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from tests.observedcluster import ObservedCluster

MANY = LEAST_CHANGES + 1_000
Follow = Callable[[ObservedCluster], tuple[ChangeLog[Any], Callable[[Snapshot, int], object]]]


def hosts(world: ObservedCluster) -> tuple[ChangeLog[Any], Callable[[Snapshot, int], object]]:
    return world.snapshot.changes.hosts, lambda snapshot, number: snapshot.changes.host(f"n{number}")


def pods(world: ObservedCluster) -> tuple[ChangeLog[Any], Callable[[Snapshot, int], object]]:
    return world.snapshot.changes.pods, lambda snapshot, number: snapshot.changes.pod(f"p{number}")


def claims(world: ObservedCluster) -> tuple[ChangeLog[Any], Callable[[Snapshot, int], object]]:
    value = world.claim_value(world.claim("c"))
    return world.snapshot.changes.claims, lambda snapshot, _: snapshot.changes.claim(value, ())


def cards(world: ObservedCluster) -> tuple[ChangeLog[Any], Callable[[Snapshot, int], object]]:
    return world.snapshot.devices.changes, lambda snapshot, number: snapshot.devices.touch(
        DeviceId("d", "p", f"gpu-{number}")
    )


@pytest.mark.parametrize("follow", [hosts, pods, claims, cards])
def test_a_log_about_few_objects_is_short(follow: Follow) -> None:
    """Each had 65,536 names after a day, whatever the size of the cluster."""
    world = ObservedCluster()
    log, change = follow(world)
    start = log.end
    for number in range(LEAST_CHANGES // 2):
        change(world.snapshot, number)
    assert log.since(start)[1] is not None
    for number in range(LEAST_CHANGES):
        change(world.snapshot, number)
    assert log.since(start)[1] is None
    assert log.since(log.end - LEAST_CHANGES // 4)[1] is not None


def test_a_log_of_allocations_about_few_claims_is_short() -> None:
    """As the others."""
    world = ObservedCluster()
    bare = world.claim_value(raw := world.claim("c"))
    world.allocate(raw, "n1", "gpu-0")
    given = world.claim_value(raw)
    index = ClaimIndex()
    for _ in range(2 * LEAST_CHANGES):
        index.put("u", bare, given)
    assert index.changes.since(0)[1] is None


def test_a_change_of_every_object_is_read_from_the_log() -> None:
    """Who has read everything once does not have to do so again because all nodes sent a heartbeat."""
    world = ObservedCluster()
    for number in range(MANY):
        world.node(f"n{number}")
    log = world.snapshot.changes.hosts
    start = log.end
    for number in range(MANY):
        world.snapshot.changes.host(f"n{number}")
    changed = log.since(start)[1]
    assert changed is not None
    assert len(changed) == MANY
