"""PublishedNames: drivers, attributes, profiles, models and amounts that published devices have now.

In: slices as they come and go. Out: names, so that one which nobody has can be told from one that somebody has.
"""

from collections import Counter
from itertools import chain
from typing import TypeAlias

from apportion.dra.device import qualify
from apportion.dra.slice import Slice
from apportion.quota.charge import MODELS, PROFILES, first_attribute

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
        self.models: Names = Counter()
        self.amounts: Names = Counter()
        """Full names of capacities, and of counters that are counted as such."""

    def put(self, old: Slice | None, new: Slice | None) -> None:
        """Replace a slice. `old` None: it is new; `new` None: it is deleted."""
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)

    def _add(self, found: Slice, sign: int) -> None:
        # The reader of slices lets devices with the same attributes share them, and those with the same amounts these.
        devices = {id(device.attributes): device for device in found.devices}.values()
        capacities = {id(device.capacity): device.capacity for device in found.devices}.values()
        consumed = {id(device.consumes): device.consumes for device in found.devices}.values()
        amounts = {*chain.from_iterable(capacities)}.union(
            name for rows in consumed for row in rows for name, _ in row.counters
        )
        for names, seen in (
            (self.drivers, (device.driver for device in devices)),
            (self.attributes, chain.from_iterable(device.attributes for device in devices)),
            (self.profiles, filter(None, (first_attribute(device, PROFILES) for device in devices))),
            (self.models, filter(None, (first_attribute(device, MODELS) for device in devices))),
            (self.amounts, (qualify(name, found.pool.driver) for name in amounts)),
        ):
            for name, count in Counter(seen).items():
                names[name] += sign * count
                if not names[name]:
                    del names[name]
