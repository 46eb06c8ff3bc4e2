"""PartitionableCard: one whole device with the partitions that slices offer on it and its Partition objects.

In: the snapshot. Out: per card its counters, by which it is decided what fits together (KEP-4815, for all vendors).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.partition import Origin, Partition
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device, DeviceId

Counters = Mapping[str, int]
"""Counters of one card, in units of 10^-9."""


@dataclass(frozen=True, slots=True)
class PartitionableCard:
    """One whole device, its offered partitions and its Partition objects."""

    whole: Device
    node: str
    total: Counters
    """What an untouched card has: the whole device takes all of it."""
    published: Mapping[str, PublishedPartition]
    """The partitions that slices offer on it, by device name."""
    partitions: tuple[Partition, ...]
    """Its Partition objects by name, those of layouts included."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the card and of all partitions that slices offer on it."""
        return (self.whole.name, *self.published)

    def device(self, name: str) -> DeviceId:
        """Return the device of this name in the card's pool."""
        return DeviceId(self.whole.driver, self.whole.pool, name)

    def held(self, snapshot: Snapshot) -> set[str]:
        """Return the names of its devices that claims hold or layouts reserve."""
        return {name for name in self.names if snapshot.state.holders(self.device(name))}

    def fits(self, taken: Iterable[str]) -> bool:
        """Say whether these devices (by name, static ones too; the card itself takes all) go together."""
        left = dict(self.total)
        for name in taken:
            for counter, amount in self.takes(name).items():
                left[counter] = left.get(counter, 0) - amount
        return all(amount >= 0 for amount in left.values())

    def takes(self, name: str) -> Counters:
        """Return what a device takes from the card; nothing when it is not known here."""
        if name == self.whole.name:
            return self.total
        found = self.published.get(name.removesuffix(STATIC_SUFFIX))
        return {counter: amount.nano for counter, amount in found.counters.items()} if found else {}


def partitionable_card(snapshot: Snapshot, device: DeviceId) -> PartitionableCard | None:
    """Return one card; None while no slice publishes it whole, and for one of another driver than our agents'."""
    published = snapshot.devices.published(device)
    if published is None or len(published[0].consumes) != 1 or device.driver not in snapshot.drivers:
        return None
    whole, node = published
    return PartitionableCard(
        whole,
        node,
        total={name: amount.nano for name, amount in whole.consumes[0].counters},
        published=snapshot.devices.published_partitions(device),
        partitions=tuple(
            sorted(snapshot.devices.partitions_on(device).values(), key=lambda p: p.metadata.name)
        ),
    )


def is_certain(snapshot: Snapshot, card: DeviceId) -> bool:
    """Say whether it is known if there is a card: its node is there and publishes it, or publishes all its slices without it."""
    published, state = snapshot.devices.published(card), snapshot.state
    if published is not None:
        return snapshot.node(published[1]) is not None
    return any(state.view(node).incomplete is None for node in state.nodes_of(card))


def is_static(partition: Partition) -> bool:
    """Say whether a layout asked for it."""
    return partition.spec.origin == Origin.LAYOUT
