"""Card: one partitionable device, what it has, what can be cut from it, and what is cut or wanted there.

In: the snapshot. Out: per card a picture in counters, which is the one arithmetic that all vendors share.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.partition import Origin, Partition
from apportion.cluster.cut import Cut
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device, DeviceId

Amounts = Mapping[str, int]
"""Counters of one card, in units of 10^-9."""


@dataclass(frozen=True, slots=True)
class Card:
    """One whole device with the partitions it offers."""

    whole: Device
    node: str
    total: Amounts
    """What an untouched card has: the whole device takes all of it."""
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    """Every way to cut it, by device name."""
    partitions: tuple[Partition, ...] = ()
    """Partition objects on it, layout ones included."""

    @property
    def id(self) -> DeviceId:
        """The whole device."""
        return self.whole.id

    def fits(self, taken: Iterable[str]) -> bool:
        """Say whether these devices (by name, static ones too; the card itself takes all) go together."""
        left = dict(self.total)
        for name in taken:
            for counter, amount in self.takes(name).items():
                left[counter] = left.get(counter, 0) - amount
        return all(amount >= 0 for amount in left.values())

    def takes(self, name: str) -> Amounts:
        """Return what a device takes from the card; nothing when it is not known here."""
        if name == self.whole.name:
            return self.total
        found = self.cuts.get(name.removesuffix(STATIC_SUFFIX))
        return {counter: q.nano for counter, q in found.counters.items()} if found else {}


def card(snapshot: Snapshot, device: DeviceId) -> Card | None:
    """Return the picture of one card; None while no slice publishes it whole."""
    published = snapshot.devices.published(device)
    if published is None or len(published[0].consumes) != 1:
        return None
    whole, node = published
    return Card(
        whole,
        node,
        total={name: amount.nano for name, amount in whole.consumes[0].counters},
        cuts=snapshot.devices.cuts(device),
        partitions=tuple(
            sorted(snapshot.devices.partitions_on(device).values(), key=lambda p: p.metadata.name)
        ),
    )


def device_id(partition: Partition) -> DeviceId:
    """Return the device that a Partition object stands for."""
    return DeviceId(partition.spec.driver, partition.spec.pool, partition.spec.device)


def is_static(partition: Partition) -> bool:
    """Say whether a layout asked for it."""
    return partition.spec.origin == Origin.LAYOUT
