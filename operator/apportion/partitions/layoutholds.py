"""LayoutHolds: keeps claims off what layouts want and have not cut yet (ADR 4).

In: the plans of layouts. Out: holds in the allocator's state, a key for each layout and pool, which refusals name. The operator and the commands do it alike.
"""

from collections.abc import Iterable

from apportion.allocator.state import State
from apportion.api.layout import layout_key
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.partitions.layouts import LayoutPlan


class LayoutHolds:
    """Follows the plans."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held: dict[str, list[DeviceId]] = {}

    def follow(self, plans: Iterable[LayoutPlan]) -> set[DeviceId]:
        """Hold what the plans reserve, and nothing else; returns the devices that are held no more."""
        wanted: dict[str, list[DeviceId]] = {}
        for plan in plans:
            for device in plan.reserved:
                wanted.setdefault(layout_key(plan.layout.metadata.name, device.pool), []).append(device)
        changed = [key for key in {**self._held, **wanted} if self._held.get(key) != wanted.get(key)]
        freed: set[DeviceId] = set()
        for key in changed:
            now = wanted.get(key, [])
            freed.update(device for device in self._held.get(key, ()) if device not in now)
            self._state.hold(key, [DeviceResult(request="layout", device=device) for device in now])
        self._held = wanted
        return freed
