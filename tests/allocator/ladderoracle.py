"""The closest set of devices on a published node, found by rating every one as the policy's text says.

In: a node, what is requested, a policy's ladder as plain JSON. Out: sets of devices and their ratings.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any, TypeAlias

from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator.publishednode import Ask, Board, Plain, Raw

Choice: TypeAlias = tuple[tuple[Plain, ...], ...]
"""Devices by request."""


def sets(board: Board, asks: Sequence[Ask]) -> Iterator[Choice]:
    """Yield every choice of devices, one tuple per ask, that the node could serve."""
    ways = [list(combinations(open_, ask.count)) for ask, open_ in zip(asks, board.open(asks), strict=True)]
    for choice in product(*ways):
        every = [device for part in choice for device in part]
        shared = Counter(need[:2] for device in every for need in {key[:2]: 0 for key in device.needs})
        # Devices on different cards fit together because each of them does.
        if max(shared.values(), default=0) < 2 or board.fits(every):
            yield choice


class Rating:
    """What a policy's ladder says of sets on one node."""

    def __init__(self, ladder: Sequence[Raw], board: Board, asks: Sequence[Ask]) -> None:
        self.ladder = ladder
        self._spots = {device.id: tuple(value(rung, device) for rung in ladder) for device in board.devices}
        self._free = [
            [Counter(self._spots[device.id][number_] for device in open_) for number_ in range(len(ladder))]
            for open_ in board.open(asks)
        ]
        """By ask and rung: how many devices every value has free."""

    def close(self, choice: Choice) -> tuple[int, ...]:
        """Rate a choice: worst level among the pairs, unevenness, sum of the levels, then what `fill` says."""
        parts = [[self._spots[device.id] for device in part] for part in choice]
        every = [spot for part in parts for spot in part]
        levels = [self.level(one, other) for one, other in combinations(every, 2)]
        uneven = 0
        fills = []
        for number_, rung in enumerate(self.ladder):
            if rung.get("split") == "Even":
                counts = Counter(spot[number_] for spot in every if spot[number_] is not None)
                uneven += max(counts.values(), default=0) - min(counts.values(), default=0)
            if "fill" in rung:
                rank = 0
                for free, part in zip(self._free, parts, strict=True):
                    for key, taken in Counter(spot[number_] for spot in part).items():
                        rank += place(rung["fill"], taken, free[number_][key]) if key is not None else 0
                fills.append(rank)
        return (max(levels, default=0), uneven, sum(levels), *fills)

    def level(self, one: Sequence[Any], other: Sequence[Any]) -> int:
        """Return the first rung on which two devices agree."""
        for number_, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine is not None and mine == theirs:
                return number_
        return len(self.ladder)


def value(rung: Raw, device: Plain) -> Any:
    """Return what a device holds on a rung."""
    own = {row["driver"]: row["attribute"] for row in rung.get("perDriver", ())}
    if device.driver not in own and rung.get("drivers") and device.driver not in rung["drivers"]:
        return None
    return device.attributes.get(own.get(device.driver, rung["attribute"]))


def place(fill: Raw, taken: int, free: int) -> int:
    """Return how late a value comes that has so many free, when so many are taken from it."""
    for row in fill.get("order", ()):
        if row["take"] == taken:
            return row["free"].index(free) if free in row["free"] else len(row["free"]) + free
    return free


def score(state: State, board: Board, choice: Choice) -> tuple[int, int]:
    """Rate a choice as Pack does: what it makes impossible, then what is left in the pools that it touches."""
    view = state.view(board.node)
    before = sum(group.state.worth for group in view.groups)
    every = [device for part in choice for device in part]
    state.hold("try", [DeviceResult("r", device.id) for device in every])
    view = state.view(board.node)
    lost = before - sum(group.state.worth for group in view.groups)
    ids = {device.id for device in every}
    touched = sum(1 << index for index in range(len(view.devices)) if view.id_of(index) in ids)
    left = (view.pools_of(touched) & view.fit & ~view.exclusive).bit_count()
    state.release("try")
    return lost, left
