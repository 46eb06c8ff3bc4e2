"""Totals: how much of each resource the cluster has, followed slice by slice.

In: slices, what quotas count. Out: amounts by what is counted. Devices that share counters cannot all be had at once: of a
counter set counts the most that fits, smallest devices first, or the largest single device (never the sum of all options).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from apportion.dra.device import Device
from apportion.dra.slice import Slice
from apportion.quota.charge import MODELS, PROFILES, Charge, first_attribute, whole_amounts
from apportion.quota.resource import Resource, Selection

AT_ONCE = 256
"""Devices, each once for all that is counted, that are looked at before `refresh` yields; a slice has 128 at most."""
IsOfClass: TypeAlias = Callable[[Device, str], bool]
"""Says whether a device belongs to a DeviceClass."""


class Totals:
    """Totals by selection."""

    def __init__(self, is_of_class: IsOfClass) -> None:
        self._is_of_class = is_of_class
        self._selections: frozenset[Selection] = frozenset()
        self._classes: object = None
        self._slices: dict[str, tuple[Slice, dict[Selection, int]]] = {}
        self._sums: Counter[Selection] = Counter()

    def of(self, selection: Selection) -> int:
        """Return how much there is, in 10^-9; 0: none, or it is not read yet."""
        return self._sums[selection]

    def counts(self, selections: Collection[Selection]) -> bool:
        """Say whether all of this is counted."""
        return self._selections.issuperset(selections)

    def refresh(
        self, slices: Mapping[str, Slice], selections: Collection[Selection], classes: object
    ) -> Iterator[None]:
        """Read the slices that changed; yields after each few. `classes`: changes whenever a DeviceClass does."""
        wanted = frozenset(selections)
        if wanted != self._selections or classes != self._classes:
            self._selections, self._classes = wanted, classes
            self._slices.clear()
            self._sums.clear()
        for uid in self._slices.keys() - slices.keys():
            self._drop(uid)
        changed = [
            uid
            for uid, found in slices.items()
            if uid not in self._slices or self._slices[uid][0] is not found
        ]
        looked = AT_ONCE
        for uid in changed:
            if looked >= AT_ONCE:
                looked = 0
                yield
            current = slices.get(uid)
            self._drop(uid)
            looked += 1
            if current is not None:
                looked += len(current.devices) * len(self._selections)
                # Another refresh may have begun meanwhile, for other selections: those count.
                own = {each: self._amount(current, each) for each in self._selections}
                self._slices[uid] = current, own
                self._sums.update(own)

    def _drop(self, uid: str) -> None:
        known = self._slices.pop(uid, None)
        if known is not None:
            self._sums.subtract(known[1])

    def _amount(self, found: Slice, selection: Selection) -> int:
        """Return how much of a selection the devices of a slice are together."""
        device_class, *_ = selection
        resource = Resource("", *selection)
        groups: defaultdict[str, list[tuple[int, Device]]] = defaultdict(list)
        sizes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for device in found.devices:
            if device.consumes:
                sizes[device.consumes[0].counter_set] |= Counter(_consumed(device))
            if device_class and not self._is_of_class(device, device_class):
                continue
            named = first_attribute(device, PROFILES), first_attribute(device, MODELS)
            amounts = tuple(whole_amounts(device).items())
            amount = resource.amount(Charge(device_class, device.driver, *named, amounts=amounts))
            if amount:
                shared = device.consumes[0].counter_set if device.consumes else ""
                groups[shared].append((amount, device))
        alone = sum(amount for amount, _ in groups.pop("", ()))
        return alone + sum(_most(rows, sizes[name]) for name, rows in groups.items())


def _most(rows: list[tuple[int, Device]], size: Counter[str]) -> int:
    """Return the most that devices of one counter set are together; `size`: the largest consumption of each counter."""
    left, together = Counter(size), 0
    for amount, device in sorted(rows, key=lambda row: sum(_consumed(row[1]).values())):
        consumed = _consumed(device)
        if all(left[name] >= taken for name, taken in consumed.items()):
            left.subtract(consumed)
            together += amount
    return max(together, *(amount for amount, _ in rows))


def _consumed(device: Device) -> dict[str, int]:
    return {name: amount.nano for name, amount in device.consumes[0].counters}
