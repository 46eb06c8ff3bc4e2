"""The allocator's oracle: every legal choice of devices in a small world, by trying all of them.

In: a world as plain JSON. Out: choices, in upstream's order. It shares no code with the product.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.allocator.referencenode import Raw, World
from tests.allocator.validity import Choice, legal


def first_solution(raw: Raw) -> list[Choice] | None:
    """Return the first legal choice in upstream's order, by trying every one; None if there is none."""
    world = World(raw)
    slots = [
        (claim, request)
        for claim in range(len(world.claims))
        for request in range(len(world.claims[claim]["spec"]["devices"]["requests"]))
    ]
    order = sorted(world.devices, key=lambda key: (key[0], key[1], _position(raw, key)))

    def ways(want: Raw) -> Iterator[tuple[Any, ...]]:
        fitting = [device for device in order if world.matches(want, device)]
        if want.get("allocationMode") == "All":
            for size in range(len(fitting), 0, -1):
                yield from combinations(fitting, size)
        else:
            yield from combinations(fitting, want["count"])

    def go(done: list[Choice]) -> list[Choice] | None:
        if len(done) == len(slots):
            return done
        claim, request = slots[len(done)]
        for alternative, (_, want) in enumerate(world.alternatives(claim, request)):
            for devices in ways(want):
                more = [*done, (claim, request, alternative, devices)]
                if legal(world, more) is None:
                    found = go(more)
                    if found is not None:
                        return found
        return None

    return go([])


def _position(raw: Raw, key: tuple[str, str, str]) -> tuple[str, int]:
    for piece in raw["slices"]:
        names = [device["name"] for device in piece["spec"].get("devices") or []]
        if piece["spec"]["driver"] == key[0] and key[2] in names:
            return piece["metadata"]["name"], names.index(key[2])
    raise KeyError(key)


def ways_taken(raw: Raw, results: list[Raw]) -> list[int]:
    """Return which alternative every request was given, in order."""
    world = World(raw)
    return [
        next(way for way, (label, _) in enumerate(world.alternatives(number, request)) if label in labels)
        for number, one in enumerate(results)
        if (labels := {row["request"] for row in one["devices"]["results"]})
        for request in range(len(world.claims[number]["spec"]["devices"]["requests"]))
    ]
