"""The oracle: legal choices of devices in a small world, found by trying all of them.

In: a world as plain JSON. Out: choices in upstream's order. It shares no code with the product.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.allocator.referencenode import Raw, ReferenceNode
from tests.allocator.validity import Choice, violation


def first_solution(raw: Raw) -> list[Choice] | None:
    """Return the first legal choice in upstream's order; None if there is none."""
    node = ReferenceNode(raw)
    slots = [
        (claim, request)
        for claim in range(len(node.claims))
        for request in range(len(node.claims[claim]["spec"]["devices"]["requests"]))
    ]
    order = sorted(node.devices, key=lambda key: (key[0], key[1], _position(raw, key)))

    def device_sets(exact: Raw) -> Iterator[tuple[Any, ...]]:
        fitting = [device for device in order if node.matches(exact, device)]
        if exact.get("allocationMode") == "All":
            for size in range(len(fitting), 0, -1):
                yield from combinations(fitting, size)
        else:
            yield from combinations(fitting, exact["count"])

    def go(done: list[Choice]) -> list[Choice] | None:
        if len(done) == len(slots):
            return done
        claim, request = slots[len(done)]
        for alternative, (_, exact) in enumerate(node.alternatives(claim, request)):
            for devices in device_sets(exact):
                more = [*done, (claim, request, alternative, devices)]
                if violation(node, more) is None:
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


def alternatives_taken(raw: Raw, results: list[Raw]) -> list[int]:
    """Return the index of the alternative that every request got, in the order of the requests."""
    node = ReferenceNode(raw)
    return [
        next(
            alternative
            for alternative, (label, _) in enumerate(node.alternatives(number, request))
            if label in labels
        )
        for number, one in enumerate(results)
        if (labels := {row["request"] for row in one["devices"]["results"]})
        for request in range(len(node.claims[number]["spec"]["devices"]["requests"]))
    ]
