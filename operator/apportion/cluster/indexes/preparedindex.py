"""PreparedIndex: where, and with which devices, agents report a claim as prepared, whatever its allocation says.

In: slices and Partitions as they come and go. Out: nodes and devices by claim: by the taint `apportion.dev/held` of a device, by the annotation of that name
of its slice, or by `status.preparedBy` of a Partition.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from apportion.api.contract import HELD
from apportion.api.partition import Partition
from apportion.cluster.indexes.deviceindex import device_of
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice

_Devices: TypeAlias = Mapping[str, frozenset[DeviceId]]
"""By claim (UID)."""


class PreparedIndex:
    """Nodes and devices by the UID of a claim."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, tuple[str, frozenset[DeviceId]]]] = {}
        """By claim, then by the UID of the slice or Partition that reports it: the node, and the devices that it reports."""

    def put_slice(self, uid: str, old: Slice | None, new: Slice | None) -> Collection[str]:
        """Replace a slice; returns the claims of which it reports something else. `old` None: it is new; `new` None: it is deleted."""
        return self._put(
            uid, _of_slice(old), _of_slice(new), new.availability.node if new is not None else None
        )

    def put_partition(self, uid: str, old: Partition | None, new: Partition | None) -> Collection[str]:
        """Replace a Partition; returns the claims of which it reports something else. `old` None: it is new; `new` None: it is deleted."""
        node = new.spec.node_name if new is not None else None
        return self._put(uid, _of_partition(old), _of_partition(new), node)

    def nodes(self, claim: str) -> frozenset[str]:
        """Return the nodes on which a claim (UID) is prepared, as far as agents have reported."""
        return frozenset(node for node, _ in self._reports.get(claim, {}).values())

    def devices(self, claim: str) -> frozenset[DeviceId]:
        """Return the devices with which a claim (UID) is prepared, as far as agents have reported: those that it has lost, and its partitions."""
        return frozenset().union(*(devices for _, devices in self._reports.get(claim, {}).values()))

    def _put(self, uid: str, former: _Devices, now: _Devices, node: str | None) -> Collection[str]:
        now = now if node else {}
        for claim in former:
            reported = self._reports.get(claim, {})
            reported.pop(uid, None)
            if not reported:
                self._reports.pop(claim, None)
        for claim, devices in now.items():
            self._reports.setdefault(claim, {})[uid] = str(node), devices
        return {claim for claim in former.keys() | now.keys() if former.get(claim) != now.get(claim)}


def _of_slice(found: Slice | None) -> _Devices:
    reported: dict[str, frozenset[DeviceId]] = {}
    for device, claim in held(found) if found is not None else ():
        reported[claim] = reported.get(claim, frozenset()) | {device}
    return reported


def _of_partition(found: Partition | None) -> _Devices:
    return dict.fromkeys(found.status.prepared_by, frozenset({device_of(found)})) if found is not None else {}


def held(found: Slice) -> Iterator[tuple[DeviceId, str]]:
    """Yield the devices that are still prepared for a claim that has lost them, each with the UID of that claim."""
    for device in found.devices:
        for taint in device.taints:
            if taint.key == HELD and taint.value:
                yield device.id, taint.value
    for entry in str(found.annotations.get(HELD, "")).split():
        name, _, claim = entry.partition("/")
        if claim:
            yield DeviceId(found.pool.driver, found.pool.name, name), claim
