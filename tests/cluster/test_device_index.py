"""Devices by name, while slices of a pool are written one after the other."""

import gc
import tracemalloc

from apportion.cluster.indexes import deviceindex
from apportion.cluster.kinds import PARTITIONS, SLICES
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Create
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.observedcluster import GPU, ObservedCluster

CARD, PART = DeviceId(GPU, "n1", "gpu-0"), DeviceId(GPU, "n1", "gpu-0-mig-1g10gb-19-0")
CARDS = 64


def test_a_device_stays_known_when_the_slice_that_had_it_before_loses_it() -> None:
    """A list that is made meanwhile shows it in both, the former one last; no other event shows it in the new one."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    devices = world.seen[SLICES, "", "n1-gpu-0-devices"]["spec"]["devices"]
    former = world.slice("n1", "n1-z", {"devices": devices}, 2)
    for change in ("MODIFIED", "DELETED"):
        index = world.snapshot.devices
        if change == "MODIFIED":
            world.see(SLICES, former | {"spec": former["spec"] | {"devices": devices[1:]}})
        else:
            world.gone(SLICES, former)
        assert index.published(CARD) is not None, change
        assert index.published_partition(PART) is not None, change
        assert PART.name in index.published_partitions(CARD), change
    world.gone(SLICES, world.seen[SLICES, "", "n1-gpu-0-devices"])
    assert world.snapshot.devices.published(CARD) is None
    assert not world.snapshot.devices.published_partitions(CARD)
    assert PART not in world.snapshot.devices.shareable


def test_nothing_is_kept_of_the_cards_that_went() -> None:
    """The nodes of a cluster that grows and shrinks have new names each time."""
    world = ObservedCluster()
    tracemalloc.start()
    for number in range(CARDS):
        world.card(f"n{number}")
        for kind, _, name in tuple(world.seen):
            world.gone(kind, world.seen.pop((kind, "", name)))
    gc.collect()
    own = tracemalloc.Filter(inclusive=True, filename_pattern=str(deviceindex.__file__))
    kept = tracemalloc.take_snapshot().filter_traces((own,)).traces
    tracemalloc.stop()
    assert [*world.snapshot.devices.cards] == []
    assert len(kept) < CARDS


def test_what_failed_for_a_former_holder_has_not_failed_for_the_next_one() -> None:
    """Its agent has not tried yet: the claim that has the device now would lose it at once, and its node be left out."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    world.device_class("gpu")
    world.allocate(world.claim("c"), "n1", PART.name)
    (made,) = DynamicPartitions(world.clock).actions(world.snapshot)
    assert isinstance(made, Create)
    raw = made.partition.to_json()
    raw["metadata"]["generation"] = 2
    for seen, failed in ((1, False), (2, True)):
        world.see(PARTITIONS, raw | {"status": {"phase": "Failed", "observedGeneration": seen}})
        assert bool(world.snapshot.devices.failed) is failed
