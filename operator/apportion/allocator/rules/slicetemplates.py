"""SliceTemplates: what slices have in common whose devices differ in names and attributes only.

In: a slice with the taints on its devices. Out: one object for all such slices: which devices are shareable, limited,
tainted, and what they draw from counters.
"""

from collections.abc import Mapping

from apportion.dra.slice import Slice
from apportion.dra.taint import Taint

MOST_KEPT = 16_384
"""SliceTemplates that are remembered; slices keep the one that they have."""


class SliceTemplate:
    """What decides how the devices of a slice are arranged on a node."""

    __slots__ = ("binding", "blocking", "consuming", "limited", "parts", "shareable", "unsupported")

    def __init__(
        self, piece: Slice, flags: tuple[int, ...], blocking: Mapping[int, tuple[Taint, ...]]
    ) -> None:
        self.parts = tuple([device.consumes for device in piece.devices])
        self.shareable, self.limited, self.binding, self.consuming, self.unsupported = flags
        """Bits of devices: that several may use; whose capacity decides even when a request names none; with binding
        conditions; that draw from counters; with attributes of no known type."""
        self.blocking = blocking
        """Taints that keep new users away, by the device's position."""


class SliceTemplates:
    """The patterns seen so far."""

    def __init__(self) -> None:
        self._kept: dict[object, SliceTemplate] = {}

    def of(self, piece: Slice, blocking: Mapping[int, tuple[Taint, ...]]) -> SliceTemplate:
        """Return the one object for this slice."""
        devices = piece.devices
        shareable = limited = binding = consuming = unsupported = 0
        policies: dict[int, bool] = {}
        for index, device in enumerate(devices):
            capacity = device.capacity
            policy = policies.get(id(capacity))
            if policy is None:
                policy = policies[id(capacity)] = any(entry.policy for entry in capacity.values())
            if device.shareable:
                shareable |= 1 << index
                limited |= 1 << index
            elif policy:
                limited |= 1 << index
            if device.binding_conditions:
                binding |= 1 << index
            if device.consumes:
                consuming |= 1 << index
            if device.unsupported:
                unsupported |= 1 << index
        flags = shareable, limited, binding, consuming, unsupported
        # Readers share equal parts of devices. The pattern keeps them, so that their ids stay their own.
        key = tuple([id(device.consumes) for device in devices]), flags, tuple(blocking.items())
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = SliceTemplate(piece, flags, blocking)
        return found

    def __len__(self) -> int:
        return len(self._kept)
