"""Cut: what partition a published device stands for.

In: devices of slices. Out: parent, profile and placement of the partition that has to be cut for each, None for
devices that need no cutting (whole cards, NICs, partitions of a layout). The rule is the published model: partitions
draw from a counter set that is named after their parent, and a MIG placement names its memory slices as counters.
"""

import re
from dataclasses import dataclass

from apportion.api.contract import COUNTER_SET_SUFFIX
from apportion.dra.device import Device, DeviceId
from apportion.dra.quantity import Quantity

_SET = re.compile(rf"(?P<parent>.+){COUNTER_SET_SUFFIX}")
_SLICE = re.compile(r"memory-slice-(?P<index>\d+)")
_KINDS = frozenset({"mig", "vnpu"})


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to cut a card."""

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


def cut(device: Device) -> Cut | None:
    """Say what has to be cut so that the device exists."""
    kind = device.attribute(f"{device.driver}/type")
    if kind not in _KINDS or len(device.consumes) != 1:
        return None
    shape = _SET.fullmatch(device.consumes[0].counter_set)
    profile = device.attribute(f"{device.driver}/{'profile' if kind == 'mig' else 'template'}")
    if shape is None or not isinstance(profile, str):
        return None
    taken = [
        int(found["index"])
        for name, amount in device.consumes[0].counters
        if amount.nano and (found := _SLICE.fullmatch(name))
    ]
    start, size = (min(taken), len(taken)) if taken else (None, None)
    return Cut(device, shape["parent"], profile, start, size)
