"""The Partition objects of this node, as last seen.

In: watch events, and the answers to our own writes. Out: Partitions by UID, card or device, and a call for each one that
came, went, or now asks for something else.
"""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from apportion.api.partition import Origin, Partition
from apportion.cluster.client import Object
from apportion.cluster.kinds import ResourceKind
from apportion.errors import BrokenInput

_REMEMBERED = 512
"""Deleted UIDs that are remembered; no answer to a write comes later than after that many deletions."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_log = structlog.get_logger()


def is_deleting(partition: Partition) -> bool:
    """Say whether the object is being deleted."""
    return partition.metadata.deletion_timestamp is not None


def layout_of(partition: Partition) -> str:
    """Return the name of the PartitionLayout that asks for it, "" for other origins."""
    holder = partition.spec.holder
    return holder.name if holder is not None and partition.spec.origin is Origin.LAYOUT else ""


class DesiredPartitions:
    """All Partition objects of this node."""

    def __init__(self, changed: Callable[[Partition], None] = lambda _: None) -> None:
        self._by_uid: dict[str, Partition] = {}
        # The watch may report a deletion before the answer to our own last write is read.
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED)
        self.changed = changed
        """Called with every Partition that came, went, or now asks for something else."""

    def observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        """Take a watch event, or MODIFIED with the answer to one of our own writes.

        What is RESTORED replaces what was newer. It brings back what was gone, as ADDED does: that shows a version written since the restore.
        """
        uid = item["metadata"]["uid"]
        restored = change == "RESTORED"
        if uid in self._deleted:
            if not restored and change != "ADDED":
                return
            self._deleted.remove(uid)
        if change == "DELETED":
            self._deleted.append(uid)
            gone = self._by_uid.pop(uid, None)
            if gone is not None:
                self.changed(gone)
            return
        try:
            partition = _read(item)
        except BrokenInput as error:
            # The schema refuses such objects; one that an older schema admitted must not stop the others.
            _log.error("partition.unreadable", partition=item["metadata"].get("name"), error=str(error))
            return
        self.add(partition, restored=restored)

    def add(self, partition: Partition, *, restored: bool = False) -> None:
        """Take a Partition in one version, unless a newer one is known that no restored history has replaced."""
        uid = partition.metadata.uid
        known = self._by_uid.get(uid)
        # The event of an older write must not undo the answer to a newer one.
        if known is not None and not restored and _version(known) >= _version(partition):
            return
        self._by_uid[uid] = partition
        # The event of a status that we wrote ourselves changes nothing: it would wake its writer again and again.
        if known is None or _asked(known) != _asked(partition):
            self.changed(partition)

    def all(self) -> tuple[Partition, ...]:
        """Return all Partitions."""
        return tuple(self._by_uid.values())

    def get(self, uid: str) -> Partition | None:
        """Return the Partition of this UID."""
        return self._by_uid.get(uid)

    def of(self, card: str) -> dict[str, Partition]:
        """Return the Partitions of one card by UID, oldest first."""
        found = [partition for partition in self._by_uid.values() if partition.spec.parent == card]
        found.sort(
            key=lambda partition: (
                partition.metadata.creation_timestamp or _EARLIEST,
                partition.metadata.name,
            )
        )
        return {partition.metadata.uid: partition for partition in found}

    def of_device(self, device: str) -> tuple[Partition, ...]:
        """Return the Partitions of a device: one, unless people make further ones (`AgentContext.partition_for`)."""
        return tuple(partition for partition in self._by_uid.values() if partition.spec.device == device)


def _read(item: Object) -> Partition:
    """Read an object. Its status is our own: one that cannot be read counts as empty, and is written again."""
    try:
        return Partition.from_json(item)
    except BrokenInput as error:
        if not error.field.startswith("status"):
            raise
        _log.warning("partition.status_unreadable", partition=item["metadata"].get("name"), error=str(error))
        return Partition.from_json({**item, "status": {}})


def _version(partition: Partition) -> int:
    return int(partition.metadata.resource_version)


def _asked(partition: Partition) -> tuple[int, bool, tuple[str, ...]]:
    """Return what changes when the object asks for something else."""
    metadata = partition.metadata
    return metadata.generation, is_deleting(partition), metadata.finalizers
