"""PublishedNames: drivers, attributes and profiles that published devices have now.

In: slices as they come and go. Out: names, so that one which nobody has can be told from one that somebody has.
"""

from collections import Counter
from itertools import chain
from typing import TypeAlias

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
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)

    def _add(self, found: Slice, sign: int) -> None:
        # The reader of slices lets devices with the same attributes share them.
        devices = {id(device.attributes): device for device in found.devices}.values()
        profiles = (first_attribute(device, PROFILES) for device in devices)
        for names, seen in (
            (self.drivers, (device.driver for device in devices)),
            (self.attributes, chain.from_iterable(device.attributes for device in devices)),
            (self.profiles, filter(None, profiles)),
        ):
            for name, count in Counter(seen).items():
                names[name] += sign * count
                if not names[name]:
                    del names[name]
