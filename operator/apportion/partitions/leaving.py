"""Static partitions beside what layouts plan: those that leave, and those that are being cut whatever became of their layout.

In: the snapshot, what is to be deleted. Out: whether a partition is in use; the devices that no claim may get.
"""

from collections.abc import Iterable, Iterator

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.layout import LAYOUT_HOLD, layout_key
from apportion.api.partition import Partition
from apportion.cluster.indexes.deviceindex import device_of
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Action, Delete


def in_use(partition: Partition, snapshot: Snapshot) -> bool:
    """Say whether a container or a claim has a static partition; what layouts hold is in nobody's use."""
    holders = snapshot.state.holders(device_of(partition))
    return bool(partition.status.prepared_by) or any(not key.startswith(LAYOUT_HOLD) for key in holders)


def dynamic(partition: Partition) -> DeviceId:
    """Return the dynamic device of a static partition's placement."""
    device = device_of(partition)
    return device._replace(name=device.name.removesuffix(STATIC_SUFFIX))


def kept_back(snapshot: Snapshot, actions: Iterable[Action]) -> Iterator[tuple[str, DeviceId]]:
    """Yield devices that no claim may get, each with the key under which it is held.

    They are those of static partitions that are being deleted, or are to be by these actions; and the placements of those that no
    slice has: its agent may be cutting it, or has cut it.
    """
    for action in actions:
        if isinstance(action, Delete):
            yield _key(action.partition), device_of(action.partition)
    for partition in snapshot.devices.unsettled.values():
        if partition.metadata.deletion_timestamp is not None:
            yield _key(partition), device_of(partition)
        if snapshot.devices.device(device_of(partition)) is None:
            yield _key(partition), dynamic(partition)


def without_object(snapshot: Snapshot) -> Iterator[tuple[str, DeviceId]]:
    """Yield devices of layouts whose Partition has gone, each with the key under which it is held: an object goes before its device leaves the slices."""
    for device in snapshot.devices.objectless:
        if device.driver in snapshot.drivers:
            yield layout_key(_layout_of(device, snapshot), device.pool), device


def _layout_of(device: DeviceId, snapshot: Snapshot) -> str:
    """Return the name of the layout that a published device says, "" without one."""
    found = snapshot.devices.device(device)
    return str(found.attribute(f"{device.driver}/layout") or "") if found is not None else ""


def _key(partition: Partition) -> str:
    holder = partition.spec.holder
    return layout_key(holder.name if holder is not None else "", partition.spec.pool)
