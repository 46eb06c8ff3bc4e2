"""ObjectStore: every observed object, parsed, in its newest version.

In: raw objects as watches deliver them, in any order, again and again. Out: what each event changed. Objects are known
by UID, so that a late DELETED of an old object cannot erase a new one of the same name. A server has one object of a name at a time:
what a list or watch adds replaces a namesake, and no answer to a write does, which may be late. A version in which nothing differs
that is read (a heartbeat, a condition, our own write that the watch repeats) changes nothing: the object of before stays, because
who waits is known by it. An object that cannot be read is
remembered as broken; so much of it counts that its devices stay taken and its classes stay shut (`unreadable`).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from apportion.api.contract import ALLOCATION_FINALIZER, MANAGER
from apportion.api.defrag import DefragPolicy
from apportion.api.layout import PartitionLayout
from apportion.api.partition import Partition
from apportion.api.policy import AllocationPolicy
from apportion.api.quota import AcceleratorQuota
from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.resourceversion import number
from apportion.cluster.unreadable import remains
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.namespace import Namespace
from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.dra.podgroup import PodGroup
from apportion.dra.slice import Slice
from apportion.dra.taintrule import DeviceTaintRule
from apportion.dra.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from apportion.errors import BrokenInput

_log = structlog.get_logger()
_REMEMBERED = 20_000
_ADDITIONS: Final = frozenset({"ADDED", "RESTORED"})
Raw = Mapping[str, Any]


def _claim(raw: Raw) -> Claim:
    """Read a claim. Where managedFields do not say who allocated it (they can be reset), our finalizer does."""
    found = Claim.from_json(raw)
    if found.allocation is None or found.allocated_by or ALLOCATION_FINALIZER not in found.finalizers:
        return found
    return replace(found, allocated_by=MANAGER)


_READERS: Mapping[ResourceKind, Callable[[Raw], Any]] = {
    kinds.NODES: Node.from_json,
    kinds.NAMESPACES: Namespace.from_json,
    kinds.PODS: Pod.from_json,
    kinds.CLAIMS: _claim,
    kinds.SLICES: Slice.from_json,
    kinds.CLASSES: DeviceClass.from_json,
    kinds.TAINT_RULES: DeviceTaintRule.from_json,
    kinds.PARTITIONS: Partition.from_json,
    kinds.LAYOUTS: PartitionLayout.from_json,
    kinds.POLICIES: AllocationPolicy.from_json,
    kinds.QUOTAS: AcceleratorQuota.from_json,
    kinds.DEFRAGS: DefragPolicy.from_json,
    kinds.VOLUME_CLAIMS: PersistentVolumeClaim.from_json,
    kinds.VOLUMES: PersistentVolume.from_json,
    kinds.STORAGE_CLASSES: StorageClass.from_json,
    kinds.POD_GROUPS: PodGroup.from_json,
}


@dataclass(frozen=True, slots=True)
class BrokenObject:
    """An object that cannot be read, and why."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    error: BrokenInput
    left_out: bool = True
    """Nothing of it counts; else its last readable value or what can be read of it does."""


class ObjectStore:
    """Objects by kind and UID."""

    def __init__(self) -> None:
        self.broken: dict[str, BrokenObject] = {}
        """By UID."""
        self._objects: dict[ResourceKind, dict[str, Any]] = {kind: {} for kind in _READERS}
        self._names: dict[ResourceKind, dict[tuple[str, str], str]] = {kind: {} for kind in _READERS}
        """UIDs by namespace and name."""
        self._versions: dict[str, int] = {}
        self._answered: dict[ResourceKind, dict[str, Raw]] = {kind: {} for kind in _READERS}
        """Metadata of objects, by UID, that only the answer to a write of our own has shown yet."""
        self._gone: OrderedDict[str, int] = OrderedDict()
        """The objects that were deleted last: by UID, in which version."""

    def of(self, kind: ResourceKind) -> dict[str, Any]:
        """Return the readable objects of a kind, by UID; it is always the same dict."""
        return self._objects[kind]

    def named(self, kind: ResourceKind, name: str, namespace: str = "") -> str | None:
        """Return the UID of the object of this name; None: there is none."""
        return self._names[kind].get((namespace, name))

    def replaced(self, kind: ResourceKind, change: str, raw: Raw) -> Raw | None:
        """Return the namesake that is gone when a list or watch adds this object, as its deletion has it; None: there is none."""
        former = self._names[kind].get(_name(raw["metadata"]))
        if not self._adds(change, raw["metadata"]) or former in {None, raw["metadata"]["uid"]}:
            return None
        return {"metadata": {**raw["metadata"], "uid": former}}

    def answered(self, kind: ResourceKind) -> list[Raw]:
        """Return the metadata of the objects that no list or watch has added: only the answer to a write of our own has shown them."""
        return [*self._answered[kind].values()]

    def observe(self, kind: ResourceKind, change: str, raw: Raw) -> tuple[Any, Any]:
        """Take in one event; returns the object before and after it, None each where there is none; None twice: nothing changed."""
        metadata = raw["metadata"]
        uid, version = metadata["uid"], number(str(metadata.get("resourceVersion") or ""))
        objects, names, name = self._objects[kind], self._names[kind], _name(metadata)
        if change != "MODIFIED":
            self._answered[kind].pop(uid, None)
        if change == "DELETED":
            if names.get(name) == uid:
                del names[name]
            self._versions.pop(uid, None)
            self.broken.pop(uid, None)
            self._gone[uid] = version
            while len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)
            return objects.pop(uid, None), None
        if self._adds(change, metadata):
            # A UID comes back in a restored history only; a list or watch that adds it may show a version written since.
            self._gone.pop(uid, None)
        # The answer to our own write, which is no addition, may come after the watch has reported the deletion.
        if change != "RESTORED" and (version < self._versions.get(uid, 0) or uid in self._gone):
            return None, None
        if change == "MODIFIED" and uid not in self._versions:
            if name in names:
                # Which of both is there a list or watch says soon.
                return None, None
            self._answered[kind][uid] = metadata
        names[name], self._versions[uid] = uid, version
        try:
            new = _READERS[kind](raw)
        except BrokenInput as error:
            old = objects.pop(uid, None)
            kept = remains(kind, raw, old)
            self.broken[uid] = BrokenObject(kind, *name, uid, error, left_out=kept is None)
            _log.warning(
                "object.broken", kind=kind.name, name=name[1], kept=kept is not None, error=str(error)
            )
            if kept is not None:
                objects[uid] = kept
            return old, kept
        old = objects.get(uid)
        if self.broken.pop(uid, None) is None and old == new:
            return None, None
        objects[uid] = new
        return old, new

    def _adds(self, change: str, metadata: Raw) -> bool:
        """Say whether a list or watch adds an object: not where it repeats an addition after the deletion."""
        version = number(str(metadata.get("resourceVersion") or ""))
        repeated = change == "ADDED" and 0 < version <= self._gone.get(metadata["uid"], 0)
        return change in _ADDITIONS and not repeated


def _name(metadata: Raw) -> tuple[str, str]:
    """Return namespace and name of an object."""
    return metadata.get("namespace") or "", metadata["name"]
