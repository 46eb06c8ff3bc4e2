"""Nodes and claims whose search takes exponential time: devices that differ pairwise in three attributes are a three-dimensional matching."""

import random
from collections.abc import Sequence

from apportion.dra.claim import Claim
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, Raw, claim, device, device_slice

VALUES = 32
_NAMES = ("p", "q", "t")


def hard_node(name: str, seed: int, devices: int = 32, alone: int = 0) -> Slice:
    """Return the slice of a node whose devices have random values of three attributes. `alone`: its number, where it must not be equal to others."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    rows = [
        device(f"d{number}", attributes={key: {"int": rng.randrange(VALUES)} for key in _NAMES})
        for number in range(devices)
    ]
    rows += [device(f"other-{number}", "other") for number in range(alone)]
    return device_slice(name, name, rows)


def easy_node(name: str, devices: int = 32) -> Slice:
    """Return the slice of a node whose devices differ in all of them."""
    rows = [
        device(f"d{number}", attributes={key: {"int": number} for key in _NAMES}) for number in range(devices)
    ]
    return device_slice(name, name, rows)


def distinct_claim(count: int) -> Claim:
    """Return a claim for so many devices that differ pairwise in all three attributes."""
    return claim("c", *(_request(number) for number in range(count)), constraints=_distinct(None))


def preferring_claim(count: int) -> Claim:
    """Return a claim for so many devices that differ pairwise in all three attributes, or for any."""
    rows = [
        {
            "name": f"r{number}",
            "firstAvailable": [_request(number)["exactly"] | {"name": name} for name in ("wanted", "any")],
        }
        for number in range(count)
    ]
    wanted = [f"r{number}/wanted" for number in range(count)]
    return claim("c", *rows, constraints=_distinct(wanted))


def _request(number: int) -> Raw:
    exact = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    return {"name": f"r{number}", "exactly": exact}


def _distinct(requests: Sequence[str] | None) -> list[Raw]:
    named = {"requests": requests} if requests is not None else {}
    return [{"distinctAttribute": f"{GPU}/{name}"} | named for name in _NAMES]
