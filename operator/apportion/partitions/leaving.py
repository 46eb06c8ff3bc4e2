"""Static partitions that leave: those that their layout wants no more, or that somebody deleted.

In: the snapshot, what is to be deleted. Out: whether a partition is in use; the partitions of which no claim may get the device.
"""

from collections.abc import Iterable, Iterator

from apportion.api.layout import LAYOUT_HOLD
from apportion.api.partition import Partition
from apportion.cluster.indexes.deviceindex import device_of
from apportion.cluster.snapshot import Snapshot
from apportion.partitions.actions import Action, Delete
from apportion.partitions.card import is_static


def in_use(partition: Partition, snapshot: Snapshot) -> bool:
    """Say whether a container or a claim has a static partition; what layouts hold is in nobody's use."""
    holders = snapshot.state.holders(device_of(partition))
    return bool(partition.status.prepared_by) or any(not key.startswith(LAYOUT_HOLD) for key in holders)


def leaving(snapshot: Snapshot, actions: Iterable[Action]) -> Iterator[Partition]:
    """Yield the static partitions that are being deleted, or are to be by these actions."""
    yield from (action.partition for action in actions if isinstance(action, Delete))
    for layout in snapshot.devices.layouts:
        for partition in snapshot.devices.of_layout(layout):
            if is_static(partition) and partition.metadata.deletion_timestamp is not None:
                yield partition
