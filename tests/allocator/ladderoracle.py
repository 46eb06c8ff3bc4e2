"""The closest sets of devices on a published node, found by rating every set as the policy's text says.

In: a node, requests, a policy's ladder as plain JSON. Out: every set that can serve the requests, and its rating.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any, TypeAlias

from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator.publishednode import PublishedDevice, PublishedNode, Raw, Requested

DeviceSet: TypeAlias = tuple[tuple[PublishedDevice, ...], ...]
"""Devices by request."""
Values: TypeAlias = tuple[Any, ...]
"""A device's value on each rung."""


def device_sets(node: PublishedNode, requests: Sequence[Requested]) -> Iterator[DeviceSet]:
    """Yield every set of devices that the node can allocate to the requests."""
    per_request = [
        list(combinations(devices, one.count))
        for one, devices in zip(requests, node.candidates(requests), strict=True)
    ]
    sets = {id(device): {need[:2] for need in device.needs} for device in node.devices}
    for chosen in product(*per_request):
        every = [device for devices in chosen for device in devices]
        consumed = [sets[id(device)] for device in every]
        # Devices on different cards fit together because each of them does.
        if len(set().union(*consumed)) == sum(map(len, consumed)) or node.fits(every):
            yield chosen


class LadderRating:
    """Ratings of device sets on one node by a policy's ladder."""

    def __init__(self, ladder: Sequence[Raw], node: PublishedNode, requests: Sequence[Requested]) -> None:
        self.ladder = ladder
        values = {id(device): tuple(value_of(rung, device) for rung in ladder) for device in node.devices}
        first: dict[Values, int] = {}
        self._kinds = {key: first.setdefault(own, len(first)) for key, own in values.items()}
        """By device the number of its values: all that a rating knows of it."""
        self._values = [*first]
        self._rated: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}
        """By the numbers of a set's devices."""
        self._free = [
            [Counter(values[id(device)][index] for device in devices) for index in range(len(ladder))]
            for devices in node.candidates(requests)
        ]
        """By request and rung: number of free devices per attribute value."""

    def rate(self, chosen: DeviceSet) -> tuple[int, ...]:
        """Rate a set: worst level among the pairs, unevenness, sum of the levels, then the ranks of `fill`."""
        kinds = tuple([tuple([self._kinds[id(device)] for device in devices]) for devices in chosen])
        found = self._rated.get(kinds)
        if found is None:
            found = self._rated[kinds] = self._rate([[self._values[kind] for kind in row] for row in kinds])
        return found

    def _rate(self, per_request: list[list[Values]]) -> tuple[int, ...]:
        """Rate a set by the values of its devices."""
        every = [values for rows in per_request for values in rows]
        levels = [self.level(one, other) for one, other in combinations(every, 2)]
        uneven = 0
        fills = []
        for index, rung in enumerate(self.ladder):
            if rung.get("split") == "Even":
                counts = Counter(values[index] for values in every if values[index] is not None)
                uneven += max(counts.values(), default=0) - min(counts.values(), default=0)
            if "fill" in rung:
                rank = 0
                for free, rows in zip(self._free, per_request, strict=True):
                    for key, taken in Counter(values[index] for values in rows).items():
                        rank += fill_rank(rung["fill"], taken, free[index][key]) if key is not None else 0
                fills.append(rank)
        return (max(levels, default=0), uneven, sum(levels), *fills)

    def level(self, one: Sequence[Any], other: Sequence[Any]) -> int:
        """Return the first rung on which two devices have the same value."""
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine is not None and mine == theirs:
                return index
        return len(self.ladder)


def value_of(rung: Raw, device: PublishedDevice) -> Any:
    """Return a device's value on a rung; None where the rung does not apply to its driver."""
    own: Raw = {row["driver"]: row["attribute"] for row in rung.get("perDriver", ())}
    if device.driver not in own and rung.get("drivers") and device.driver not in rung["drivers"]:
        return None
    return device.attributes.get(own.get(device.driver, rung["attribute"]))


def fill_rank(fill: Raw, taken: int, free: int) -> int:
    """Return the rank of a value with `free` free devices when `taken` are allocated from it; lower is better."""
    for row in fill.get("order", ()):
        if row["take"] == taken:
            return row["free"].index(free) if free in row["free"] else len(row["free"]) + free
    return free


def pack_score(state: State, node: PublishedNode, chosen: DeviceSet) -> tuple[int, int]:
    """Score a set as Pack does: placements that it makes impossible, then free devices left in its pools."""
    view = state.view(node.name)
    before = sum(group.state.worth for group in view.groups)
    every = [device for devices in chosen for device in devices]
    state.hold("try", [DeviceResult("r", device.id) for device in every])
    view = state.view(node.name)
    lost = before - sum(group.state.worth for group in view.groups)
    ids = {device.id for device in every}
    touched = sum(1 << index for index in range(len(view.devices)) if view.id_of(index) in ids)
    left = (view.pools_of(touched) & view.fit & ~view.exclusive).bit_count()
    state.release("try")
    return lost, left
