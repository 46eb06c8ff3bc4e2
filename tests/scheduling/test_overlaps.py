"""Two live allocations of one device: who gives way."""

from apportion.scheduling.clearing import overlaps
from tests.observedcluster import ObservedCluster
from tests.scheduling.overlapping import EARLY, LATE, RESERVED, world_with


def test_the_later_unreserved_allocation_loses() -> None:
    """Whatever the order in which we saw them."""
    (found,) = overlaps(world_with({"timestamp": LATE}, {"timestamp": EARLY}).snapshot)
    assert found.loser is not None
    assert found.loser.name == "first"


def test_a_reserved_allocation_wins_over_an_older_free_one() -> None:
    """A pod may run with it."""
    (found,) = overlaps(
        world_with({"timestamp": EARLY}, {"timestamp": LATE, "reservedFor": RESERVED}).snapshot
    )
    assert found.loser is not None
    assert found.loser.name == "first"


def test_two_reserved_allocations_are_a_tie() -> None:
    """Nobody's pod is harmed by us; the node refuses the later one."""
    (found,) = overlaps(world_with({"reservedFor": RESERVED}, {"reservedFor": RESERVED}).snapshot)
    assert found.loser is None


def test_a_card_and_a_partition_of_it_overlap_by_their_counters() -> None:
    """The devices differ, the memory slices do not."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    world.allocate(world.claim("whole"), "n1", "gpu-0", timestamp=EARLY)
    assert overlaps(world.snapshot) == []
    world.allocate(world.claim("part"), "n1", "gpu-0-mig-1g10gb-19-3", timestamp=LATE)
    found = overlaps(world.snapshot)
    assert {overlap.loser.name for overlap in found if overlap.loser} == {"part"}


def test_two_disjoint_partitions_do_not_overlap() -> None:
    """That is what partitions are for."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    for start in (0, 1):
        world.allocate(world.claim(f"c{start}"), "n1", f"gpu-0-mig-1g10gb-19-{start}")
    assert overlaps(world.snapshot) == []
