"""PublishedNames: drivers, attributes and profiles that published devices have now.

In: slices as they come and go. Out: names, so that one which nobody has can be told from one that somebody has.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from apportion.dra.device import Device
from apportion.dra.slice import Slice
from apportion.quota.charge import PROFILES, first_attribute

Names: TypeAlias = Counter[str]
"""How often each was seen; none that was not."""


class PublishedNames:
    """Counts them by slice."""

    def __init__(self) -> None:
        self.drivers: Names = Counter()
        self.attributes: Names = Counter()
        """Full names."""
        self.profiles: Names = Counter()
        """Of partitions, cut or offered."""

    def put(self, old: Slice | None, new: Slice | None) -> None:
        """Replace a slice. `old` None: it is new; `new` None: it is deleted."""
        for found, more in ((old, -1), (new, 1)):
            for device in _of_each_kind(found) if found is not None else ():
                _count(self.drivers, device.driver, more)
                profile = first_attribute(device, PROFILES)
                if profile:
                    _count(self.profiles, profile, more)
                for name in device.attributes:
                    _count(self.attributes, name, more)


def _of_each_kind(found: Slice) -> Iterator[Device]:
    """Yield one of the devices that have the same attributes: the reader of slices lets them share these."""
    yield from {id(device.attributes): device for device in found.devices}.values()


def _count(names: Names, name: str, more: int) -> None:
    names[name] += more
    if not names[name]:
        del names[name]
