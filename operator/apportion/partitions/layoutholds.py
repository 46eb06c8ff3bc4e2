"""LayoutHolds: keeps claims off what layouts want and have not cut yet, and off what they give up (ADR 4).

In: the plans of layouts, the snapshot. Out: holds in the allocator's state, a key for each layout and pool, which refusals name. The operator and the commands do it alike.
"""

from collections.abc import Sequence

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.layout import layout_key
from apportion.cluster.indexes.deviceindex import device_of
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.partitions.layouts import LayoutPlan, orphans
from apportion.partitions.leaving import leaving


class LayoutHolds:
    """Follows the plans."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._held: dict[str, list[DeviceId]] = {}

    def follow(self, plans: Sequence[LayoutPlan]) -> set[DeviceId]:
        """Hold what the plans reserve or give up, and nothing else; returns the devices that are held no more."""
        wanted: dict[str, list[DeviceId]] = {}
        for plan in plans:
            for device in plan.reserved:
                wanted.setdefault(layout_key(plan.layout.metadata.name, device.pool), []).append(device)
        for device, key in self._given_up(plans).items():
            wanted.setdefault(key, []).append(device)
        changed = [key for key in {**self._held, **wanted} if self._held.get(key) != wanted.get(key)]
        freed: set[DeviceId] = set()
        for key in changed:
            now = wanted.get(key, [])
            freed.update(device for device in self._held.get(key, ()) if device not in now)
            self._snapshot.state.hold(key, [DeviceResult(request="layout", device=device) for device in now])
        self._held = wanted
        return freed

    def _given_up(self, plans: Sequence[LayoutPlan]) -> dict[DeviceId, str]:
        """Return the devices of partitions that leave, each with its key, until slices show them no more: their objects go before."""
        actions = [*(action for plan in plans for action in plan.actions), *orphans(self._snapshot, plans)]
        found = {
            device_of(each): layout_key(each.spec.holder.name, each.spec.pool)
            for each in leaving(self._snapshot, actions)
            if each.spec.holder is not None
        }
        devices = self._snapshot.devices
        for key, held in self._held.items():
            for device in held:
                gone = device.name.endswith(STATIC_SUFFIX) and devices.partition(device) is None
                if gone and devices.device(device) is not None:
                    found.setdefault(device, key)
        return found
