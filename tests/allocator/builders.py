"""Small objects for tests, as Kubernetes JSON and as values."""

from collections.abc import Sequence
from typing import Any

from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.state import State
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice

GPU = "gpu.example.com"
A = f'device.attributes["{GPU}"]'
Raw = dict[str, Any]


def amounts(**values: object) -> Raw:
    """Return counters or capacities as the API writes them."""
    return {name: {"value": str(value)} for name, value in values.items()}


def device(name: str, kind: str = "gpu", use: Raw | None = None, chip: str = "chip-0", **more: Any) -> Raw:
    """Return a device of a kind; `use`: what it takes of its chip's counters."""
    row: Raw = {"name": name, "attributes": {"kind": {"string": kind}}} | more
    if use:
        row["consumesCounters"] = [{"counterSet": chip, "counters": amounts(**use)}]
    return row


def piece(name: str, node: str | None, devices: Sequence[Raw] = (), count: int = 1, **more: Any) -> Slice:
    """Return a slice of a node, or of all nodes."""
    spec: Raw = {
        "driver": GPU,
        "pool": {
            "name": more.pop("pool", node or "net"),
            "generation": more.pop("generation", 1),
            "resourceSliceCount": count,
        },
    }
    spec |= {"nodeName": node} if node else {"allNodes": True}
    if devices:
        spec["devices"] = list(devices)
    return Slice.from_json({"metadata": {"name": name, "uid": name}, "spec": spec | more})


def chip(*, parts: int = 4, number: int = 0) -> list[Raw]:
    """Return a whole chip and its parts: the whole takes all units, a part one."""
    names = f"chip-{number}"
    return [
        device(f"{names}-whole", "whole", {"units": parts}, names),
        *(device(f"{names}-part-{index}", "part", {"units": 1}, names) for index in range(parts)),
    ]


def chips(node: str, count: int = 1, parts: int = 4) -> list[Slice]:
    """Return the slices of a node with partitionable chips."""
    sets = [{"name": f"chip-{number}", "counters": amounts(units=parts)} for number in range(count)]
    rows = [row for number in range(count) for row in chip(parts=parts, number=number)]
    return [
        piece(f"{node}-counters", node, count=2, sharedCounters=sets),
        piece(f"{node}-devices", node, rows, count=2),
    ]


def want(name: str = "r", kind: str = "gpu", count: int = 1, **more: Any) -> Raw:
    """Return a request for devices of a kind."""
    selectors = [{"cel": {"expression": f'{A}.kind == "{kind}"'}}] if kind else []
    exact = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": selectors,
    } | more
    return {"name": name, "exactly": exact}


def claim(name: str, *requests: Raw, constraints: Sequence[Raw] = (), config: Sequence[Raw] = ()) -> Claim:
    """Return a claim with these requests."""
    devices: Raw = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    return Claim.from_json(
        {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"devices": devices}}
    )


def cluster(*slices: Slice, nodes: Sequence[str] = ("n1",), features: Features = DEFAULT_FEATURES) -> State:
    """Return a state with a class `any` of the one driver."""
    state = State(features)
    for name in nodes:
        state.put_node(name, {"zone": name})
    expression = f'device.driver == "{GPU}"'
    state.put_class(
        DeviceClass.from_json(
            {"metadata": {"name": "any"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        )
    )
    for one in slices:
        state.put_slice(one)
    return state
