"""Two live allocations of one device: who gives way."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.clearing.clearing import Overlaps
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.partitions.manycards import many
from tests.scheduling.givenback import tried
from tests.scheduling.overlapping import EARLY, LATE, RESERVED, world_with
from tests.steps import steps


def test_the_later_unreserved_allocation_loses() -> None:
    """Whatever the order in which we saw them."""
    (found,) = Overlaps(world_with({"timestamp": LATE}, {"timestamp": EARLY}).snapshot).find()
    assert found.untaken
    assert found.untaken[-1].name == "first"


def test_a_reserved_allocation_wins_over_an_older_free_one() -> None:
    """A pod may run with it."""
    (found,) = Overlaps(
        world_with({"timestamp": EARLY}, {"timestamp": LATE, "reservedFor": RESERVED}).snapshot
    ).find()
    assert found.untaken
    assert found.untaken[-1].name == "first"


def test_two_reserved_allocations_are_a_tie() -> None:
    """Nobody's pod is harmed by us; the node refuses the later one."""
    (found,) = Overlaps(world_with({"reservedFor": RESERVED}, {"reservedFor": RESERVED}).snapshot).find()
    assert not found.untaken


def test_a_card_and_a_partition_of_it_overlap_by_their_counters() -> None:
    """The devices differ, the memory slices do not."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    world.allocate(world.claim("whole"), "n1", "gpu-0", timestamp=EARLY)
    overlaps = Overlaps(world.snapshot)
    assert overlaps.find() == []
    world.allocate(world.claim("part"), "n1", "gpu-0-mig-1g10gb-19-3", timestamp=LATE)
    assert {overlap.untaken[-1].name for overlap in overlaps.find() if overlap.untaken} == {"part"}
    world.gone(CLAIMS, world.claim("part"))
    assert overlaps.find() == []


def test_two_disjoint_partitions_do_not_overlap() -> None:
    """That is what partitions are for."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    for start in (0, 1):
        world.allocate(world.claim(f"c{start}"), "n1", f"gpu-0-mig-1g10gb-19-{start}")
    assert Overlaps(world.snapshot).find() == []


def test_a_pass_looks_only_where_something_changed() -> None:
    """However many allocations there are; a reservation that comes later decides who gives way."""
    counts = []
    for nodes in (5, 50):
        world = many(nodes)
        overlaps = Overlaps(world.snapshot)
        assert overlaps.find() == []
        late = world.allocate(world.claim("late"), "n0", "gpu-0", timestamp=LATE, reservedFor=RESERVED)
        counts.append(steps(overlaps.find))
        (found,) = overlaps.find()
        assert found.untaken
        assert found.untaken[-1].name == "c0"
        late["status"]["reservedFor"] = []
        world.see(CLAIMS, late)
        (found,) = overlaps.find()
        assert found.untaken
        assert found.untaken[-1].name == "late"
    assert counts[0] == counts[1]


def test_slices_that_come_after_the_allocations_show_the_overlap() -> None:
    """Only they say which counters the devices share."""
    world = ObservedCluster()
    world.node("n1")
    overlaps = Overlaps(world.snapshot)
    world.allocate(world.claim("whole"), "n1", "gpu-0", timestamp=EARLY)
    world.allocate(world.claim("part"), "n1", "gpu-0-mig-1g10gb-19-3", timestamp=LATE)
    assert overlaps.find() == []
    world.card("n1")
    (found,) = overlaps.find()
    assert [claim.name for claim in found.claims] == ["whole", "part"]


def shared(memory: str) -> ObservedCluster:
    """Return a node with a device that several claims may share, and that has so much memory."""
    world = ObservedCluster()
    world.node("n1")
    offers(world, memory)
    return world


def offers(world: ObservedCluster, memory: str, name: str = "memory") -> None:
    """Let the device have so much memory from now on, under this name."""
    device: Json = {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "capacity": {name: {"value": memory}},
    }
    world.slice("n1", "devices", {"devices": [device]}, 1)


def takes(
    world: ObservedCluster, claimant: str, memory: str | None, name: str = "memory", **status: object
) -> None:
    """Let a claim have a share of the device; None: all of it."""
    claim = world.allocate(world.claim(claimant), "n1", "gpu-0", **status)  # type: ignore[arg-type]
    [result] = claim["status"]["allocation"]["devices"]["results"]
    if memory is not None:
        result |= {"shareID": f"share-of-{claimant}", "consumedCapacity": {name: memory}}
    world.see(CLAIMS, claim)


@pytest.mark.parametrize("second", ["50Gi", None], ids=["a share", "the whole device"])
def test_shares_of_more_than_a_device_has_overlap(second: str | None) -> None:
    """A leader that was stopped in the middle of a write, and writes later than it may: both pods would start."""
    world = shared("80Gi")
    overlaps = Overlaps(world.snapshot)
    takes(world, "first", "50Gi", timestamp=EARLY)
    assert overlaps.find() == []
    takes(world, "second", second, timestamp=LATE)
    (found,) = overlaps.find()
    assert f"{GPU}/n1/gpu-0" in found.what
    assert found.untaken
    assert found.untaken[-1].name == "second"
    world.gone(CLAIMS, world.claim("second"))
    assert overlaps.find() == []


def test_shares_that_fit_together_do_not_overlap_nor_do_those_in_use_of_a_device_that_has_less_now() -> None:
    """A policy may offer less of a device than before: who runs goes on, and nobody has to give way."""
    world = shared("80Gi")
    takes(world, "first", "50Gi", reservedFor=RESERVED)
    takes(world, "second", "30Gi", reservedFor=RESERVED)
    overlaps = Overlaps(world.snapshot)
    assert overlaps.find() == []
    offers(world, "40Gi")
    assert overlaps.find() == []


def test_a_share_beside_one_of_a_capacity_that_its_driver_has_named_otherwise_overlaps() -> None:
    """Who decided about it went by the former name, or counted nothing under it (kube-scheduler 1.37): what is left of the device is unknown."""
    world = shared("80Gi")
    takes(world, "first", "50Gi", timestamp=EARLY)
    takes(world, "second", "20Gi", timestamp=EARLY)
    overlaps = Overlaps(world.snapshot)
    offers(world, "80Gi", name="hbm")
    assert overlaps.find() == []
    takes(world, "third", "80Gi", name="hbm", timestamp=LATE)
    (found,) = overlaps.find()
    assert found.what == f"{GPU}/n1/gpu-0 (capacity memory)"
    assert found.untaken[-1].name == "third"
    world.gone(CLAIMS, world.claim("third"))
    assert overlaps.find() == []


async def test_ours_is_cleared_where_that_of_another_allocator_may_not_be(unanswered: Client) -> None:
    """Unguarded devices: one of them went to a claim of a class that is not ours, later and without a reservation; a gated pod would wait for ever."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.device_class("theirs", other="x")
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    world.allocate(world.claim("ours"), "n1", "gpu-0", timestamp=EARLY)
    world.pod("waits", "ours", gates=[GATE])
    world.allocate(world.claim("others", request("theirs")), "n1", "gpu-0", by="volcano", timestamp=LATE)
    assert await tried(world.cycle(unanswered)) == ["ours"]
