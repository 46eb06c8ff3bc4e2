"""Claims that look at partitions beside those who have them (admin access)."""

import pytest

from apportion.api.contract import GATE
from apportion.api.partition import Phase
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PARTITIONS, PODS
from apportion.dra.groupmembership import GROUP, LEAST
from tests.observedcluster import Json, ObservedCluster
from tests.partitions.manycards import controller, many
from tests.partitions.onecard import FIRST, SECOND


def watcher(world: ObservedCluster, device: str) -> Json:
    """Return a claim that looks at a device of the first node."""
    raw = world.allocate(world.claim("watcher"), "n0", device)
    raw["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    return world.see(CLAIMS, raw)


def twice(world: ObservedCluster, client: Client) -> None:
    """Make two passes: Events about what keeps gates shut are recorded in the next one."""
    cycle = world.cycle(client)
    cycle.once()
    cycle.once()


@pytest.mark.parametrize("phase", [Phase.READY, Phase.PENDING, Phase.FAILED])
async def test_a_claim_with_admin_access_waits_for_the_cut_and_not_for_the_holder(
    unanswered: Client, phase: Phase
) -> None:
    """The partition never becomes its own, and its agent does not ask for that: the pod waited behind its gate for ever."""
    world = many(1)
    raw = watcher(world, FIRST)
    world.see(PARTITIONS, world.seen[PARTITIONS, "", f"n0-{FIRST}"] | {"status": {"phase": str(phase)}})
    watching = controller(world, unanswered)
    assert watching.phase(world.claim_value(raw)) == phase
    (holder,) = {each.spec.holder for each in world.snapshot.partitions.values()}
    assert holder is not None
    assert holder.name == "c0"


@pytest.mark.parametrize("grouped", [False, True])
async def test_an_event_names_a_partition_that_nobody_cuts(unanswered: Client, *, grouped: bool) -> None:
    """For admin access no partition is cut: the pod waits until somebody else gets it, which may be never."""
    world = many(1)
    watcher(world, SECOND)
    pod = world.pod("watching", "watcher", gates=[GATE])
    if grouped:
        pod["metadata"] |= {"labels": {GROUP: "g"}, "annotations": {LEAST: "1"}}
        world.see(PODS, pod)
    twice(world, unanswered)
    assert world.warned == [("watcher", "PartitionNotCut"), ("watching", "PartitionNotCut")]
    assert f"nobody has partition gpu.apportion.dev/n0/{SECOND}" in world.messages[0][2]


@pytest.mark.parametrize("kept", [FIRST, SECOND])
async def test_nothing_is_said_about_a_partition_that_somebody_has(unanswered: Client, kept: str) -> None:
    """It is cut, or will be."""
    world = many(1)
    watcher(world, kept)
    if kept == SECOND:
        world.allocate(world.claim("owner"), "n0", kept)
    world.pod("watching", "watcher", gates=[GATE])
    twice(world, unanswered)
    assert world.warned == []
