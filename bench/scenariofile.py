"""Scenario files: a cluster and the claims that arrive and are released, read into the allocator's state.

In: a scenario file, plain or gzipped. Out: a Scenario. The format is described in the shared generator, peer/scenarios.py.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from apportion.allocator.state import State
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class Event:
    """A claim arrives or is released."""

    op: str
    """allocate or release."""
    claim: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster in the allocator's state, its claims by name, and the order of their arrivals and releases."""

    name: str
    state: State
    nodes: int
    devices: int
    claims: Mapping[str, Claim]
    events: tuple[Event, ...]


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a scenario file, plain or gzipped; raises BrokenInput."""
    try:
        raw = path.read_bytes()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        content: dict[str, Any] = orjson.loads(raw)
    except OSError as error:
        raise BrokenInput(str(error.strerror)) from None
    except orjson.JSONDecodeError as error:
        raise BrokenInput(f"not JSON: {error}") from None
    return content


def load(path: Path) -> Scenario:
    """Read a scenario into the allocator's state; raises BrokenInput."""
    return build(read_json(path))


def build(content: Mapping[str, Any]) -> Scenario:
    """Put nodes, classes and slices of a scenario into a new State; raises BrokenInput."""
    state = State()
    for node in content["nodes"]:
        state.put_node(node["metadata"]["name"], node["metadata"].get("labels") or {})
    for row in content["classes"]:
        device_class = DeviceClass.from_json(row)
        state.put_class(device_class)
        for selector in device_class.selectors:
            # A running operator has compiled the selectors of its classes long before a claim arrives.
            state.programs.get(selector)
    devices = 0
    for row in content["slices"]:
        resource_slice = Slice.from_json(row)
        devices += len(resource_slice.devices)
        state.put_slice(resource_slice)
    state.settle()
    claims = {claim.name: claim for claim in map(Claim.from_json, content["claims"])}
    if len(claims) < len(content["claims"]):
        raise BrokenInput("two claims have one name", field="claims")
    events = tuple(Event(row["op"], row["claim"]) for row in content.get("events") or ())
    return Scenario(
        content["name"],
        state,
        len(content["nodes"]),
        devices,
        claims,
        events or tuple(Event("allocate", name) for name in claims),
    )
