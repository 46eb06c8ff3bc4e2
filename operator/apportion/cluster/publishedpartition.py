"""PublishedPartition: the partition that has to be cut so that a published device exists.

In: devices of slices. Out: parent, profile and placement of the partition; None for devices that need no cut (whole
cards, NICs, partitions of a layout). The rule is our agent's model (KEP-4815 counters): partitions draw from a counter
set that is named after their parent, and a MIG placement names its memory slices as counters.
"""

import re
from dataclasses import dataclass

from apportion.api.contract import COUNTER_SET_SUFFIX
from apportion.dra.device import Device, DeviceId
from apportion.dra.quantity import Quantity

_COUNTER_SET = re.compile(rf"(?P<parent>.+){COUNTER_SET_SUFFIX}")
_MEMORY_SLICE = re.compile(r"memory-slice-(?P<index>\d+)")
_TYPES = frozenset({"mig", "vnpu"})


@dataclass(frozen=True, slots=True)
class PublishedPartition:
    """One partition that a slice offers on a card."""

    device: Device
    parent: str
    profile: str
    start: int | None
    """First memory slice; None where the driver places partitions itself (vNPU)."""
    size: int | None

    @property
    def card(self) -> DeviceId:
        """The whole device that it is cut from."""
        return DeviceId(self.device.driver, self.device.pool, self.parent)

    @property
    def counters(self) -> dict[str, Quantity]:
        """What it takes from its parent."""
        return dict(self.device.consumes[0].counters)


def published_partition(device: Device) -> PublishedPartition | None:
    """Return the partition that the device stands for; None when it needs no cut."""
    type_ = device.attribute(f"{device.driver}/type")
    if type_ not in _TYPES or len(device.consumes) != 1:
        return None
    shape = _COUNTER_SET.fullmatch(device.consumes[0].counter_set)
    profile = device.attribute(f"{device.driver}/{'profile' if type_ == 'mig' else 'template'}")
    if shape is None or not isinstance(profile, str):
        return None
    taken = [
        int(found["index"])
        for name, amount in device.consumes[0].counters
        if amount.nano and (found := _MEMORY_SLICE.fullmatch(name))
    ]
    start, size = (min(taken), len(taken)) if taken else (None, None)
    return PublishedPartition(device, shape["parent"], profile, start, size)
