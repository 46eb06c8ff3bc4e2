"""DeviceIndex: published devices, the partitions that slices offer on each card, and its Partition objects.

PreparedIndex: on which nodes agents report a claim as prepared, whatever its allocation says: by the taint
`apportion.dev/held` of a device, or by `status.preparedBy` of a Partition.

In: slices and Partitions as they come and go. Out: look-ups by device, by card and by claim, without going through all slices.
"""

from collections.abc import Iterable, Iterator, Mapping

from apportion.api.contract import HELD
from apportion.api.partition import Partition
from apportion.cluster.publishedpartition import PublishedPartition, published_partition
from apportion.dra.device import Device, DeviceId
from apportion.dra.slice import Slice


class DeviceIndex:
    """Devices and partitions by name and by card."""

    def __init__(self) -> None:
        self._devices: dict[DeviceId, tuple[str, Device, str | None]] = {}
        """Slice UID, device, node."""
        self._published: dict[DeviceId, dict[str, PublishedPartition]] = {}
        self._partitions: dict[DeviceId, dict[str, Partition]] = {}

    def put_slice(self, uid: str, old: Slice | None, new: Slice | None) -> None:
        """Replace a slice. `old` None: it is new; `new` None: it is deleted."""
        for device in old.devices if old is not None else ():
            # In a new pool generation another slice may publish the device already.
            if self._devices.get(device.id, ("",))[0] == uid:
                del self._devices[device.id]
                part = published_partition(device)
                if part is not None:
                    self._published.get(part.card, {}).pop(device.name, None)
        for device in new.devices if new is not None else ():
            self._devices[device.id] = (uid, device, new.availability.node if new is not None else None)
            part = published_partition(device)
            if part is not None:
                self._published.setdefault(part.card, {})[device.name] = part

    def put_partition(self, uid: str, old: Partition | None, new: Partition | None) -> None:
        """Replace a Partition object. `old` None: it is new; `new` None: it is deleted."""
        if old is not None:
            self._partitions.get(card_of(old), {}).pop(uid, None)
        if new is not None:
            self._partitions.setdefault(card_of(new), {})[uid] = new

    def published(self, device: DeviceId) -> tuple[Device, str] | None:
        """Return a device and its node; None when no slice has it, or its slice is not for one node."""
        found = self._devices.get(device)
        return (found[1], found[2]) if found and found[2] is not None else None

    def published_partitions(self, card: DeviceId) -> Mapping[str, PublishedPartition]:
        """Return the partitions that slices offer on a card, by device name."""
        return self._published.get(card, {})

    @property
    def cards(self) -> Iterator[DeviceId]:
        """Yield all cards that offer partitions."""
        return (card for card, found in self._published.items() if found)

    def partitions_on(self, card: DeviceId) -> Mapping[str, Partition]:
        """Return the Partition objects on a card, by UID."""
        return self._partitions.get(card, {})

    @property
    def partitioned(self) -> Iterator[DeviceId]:
        """Yield all cards with Partition objects."""
        return (card for card, found in self._partitions.items() if found)


class PreparedIndex:
    """Nodes by the UID of a claim."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, str]] = {}
        """By claim, then by the UID of the slice or Partition that reports it."""

    def put_slice(self, uid: str, old: Slice | None, new: Slice | None) -> None:
        """Replace a slice. `old` None: it is new; `new` None: it is deleted."""
        self._put(uid, _held(old), _held(new), new.availability.node if new is not None else None)

    def put_partition(self, uid: str, old: Partition | None, new: Partition | None) -> None:
        """Replace a Partition. `old` None: it is new; `new` None: it is deleted."""
        before = old.status.prepared_by if old is not None else ()
        after = new.status.prepared_by if new is not None else ()
        self._put(uid, before, after, new.spec.node_name if new is not None else None)

    def nodes(self, claim: str) -> frozenset[str]:
        """Return the nodes on which a claim (UID) is prepared, as far as agents have reported."""
        return frozenset(self._nodes.get(claim, {}).values())

    def _put(
        self, uid: str, before: Iterable[str] | None, after: Iterable[str] | None, node: str | None
    ) -> None:
        for claim in before or ():
            reported = self._nodes.get(claim, {})
            reported.pop(uid, None)
            if not reported:
                self._nodes.pop(claim, None)
        for claim in (after or ()) if node else ():
            self._nodes.setdefault(claim, {})[uid] = str(node)


def device_of(partition: Partition) -> DeviceId:
    """Return the device that a Partition object stands for."""
    return DeviceId(partition.spec.driver, partition.spec.pool, partition.spec.device)


def card_of(partition: Partition) -> DeviceId:
    """Return the whole device that a partition is cut from."""
    return DeviceId(partition.spec.driver, partition.spec.pool, partition.spec.parent)


def _held(found: Slice | None) -> Iterator[str]:
    for device in found.devices if found is not None else ():
        for taint in device.taints:
            if taint.key == HELD and taint.value:
                yield taint.value
