"""LayoutHolds: keeps claims off what layouts want and have not cut yet, and off what they give up (ADR 4).

In: the plans of layouts, the snapshot. Out: holds in the allocator's state, a key for each layout and pool, which refusals name. The operator and the commands do it alike.
"""

from collections.abc import Iterable, Iterator, Sequence

from apportion.api.layout import layout_key
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Delete
from apportion.partitions.layouts import LayoutPlan
from apportion.partitions.leaving import kept_back, without_object


class LayoutHolds:
    """Follows the plans."""

    def __init__(self, snapshot: Snapshot, *, partial: bool = False) -> None:
        """`partial`: where there is no Partition object at all, nothing is known of them, as in a file that a person has put together."""
        self._snapshot = snapshot
        self._partial = partial
        self._held: dict[str, dict[DeviceId, None]] = {}

    def follow(self, plans: Sequence[LayoutPlan], orphaned: Iterable[Delete]) -> set[DeviceId]:
        """Hold what the plans reserve or give up, and what is being cut, and nothing else; `orphaned`: what layouts have left. Returns the devices that are held no more."""
        wanted: dict[str, dict[DeviceId, None]] = {}
        for key, device in (*_reserved(plans), *self._kept_back(plans, orphaned)):
            wanted.setdefault(key, {})[device] = None
        changed = [key for key in {**self._held, **wanted} if self._held.get(key) != wanted.get(key)]
        freed: set[DeviceId] = set()
        for key in changed:
            now = wanted.get(key, {})
            freed.update(device for device in self._held.get(key, {}) if device not in now)
            self._snapshot.state.hold(key, [DeviceResult(request="layout", device=device) for device in now])
        self._held = wanted
        return freed

    def _kept_back(
        self, plans: Sequence[LayoutPlan], orphaned: Iterable[Delete]
    ) -> Iterator[tuple[str, DeviceId]]:
        """Yield what is held beside what the plans reserve, each with its key."""
        actions = [*(action for plan in plans for action in plan.actions), *orphaned]
        yield from kept_back(self._snapshot, actions)
        if self._snapshot.partitions or not self._partial:
            yield from without_object(self._snapshot)


def _reserved(plans: Sequence[LayoutPlan]) -> Iterator[tuple[str, DeviceId]]:
    for plan in plans:
        for device in plan.reserved:
            yield layout_key(plan.layout.metadata.name, device.pool), device
