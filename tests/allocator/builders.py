"""Builders of claims, devices and slices as Kubernetes JSON or values, and of states that know them."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.allocator.demand import Demand
from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice

GPU = "gpu.example.com"
A = f'device.attributes["{GPU}"]'
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
Raw = dict[str, Any]


def amounts(**values: object) -> Raw:
    """Return counters or capacities in the API's form."""
    return {name: {"value": str(value)} for name, value in values.items()}


def device(name: str, kind: str = "gpu", use: Raw | None = None, chip: str = "chip-0", **more: Any) -> Raw:
    """Return a device with an attribute `kind`. `use`: what it consumes of the counters of its chip."""
    row: Raw = {"name": name, "attributes": {"kind": {"string": kind}}} | more
    if use:
        row["consumesCounters"] = [{"counterSet": chip, "counters": amounts(**use)}]
    return row


def device_at(index: int, root: int, numa: int, kind: str = "gpu", **more: Raw) -> Raw:
    """Return a device on a PCIe root and a NUMA node."""
    attributes: Raw = {"kind": {"string": kind}, ROOT: {"string": f"root-{root}"}, NUMA: {"int": numa}}
    return device(f"{kind}-{index}", attributes=attributes | more)


def device_slice(
    name: str, node: str | None, devices: Sequence[Raw] = (), count: int = 1, **more: Any
) -> Slice:
    """Return a ResourceSlice of a node; without `node`, of all nodes."""
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
    """Return a chip as devices: the whole consumes all units, every part one."""
    names = f"chip-{number}"
    return [
        device(f"{names}-whole", "whole", {"units": parts}, names),
        *(device(f"{names}-part-{index}", "part", {"units": 1}, names) for index in range(parts)),
    ]


def chips(node: str, count: int = 1, parts: int = 4) -> list[Slice]:
    """Return the slices of a node with partitionable chips, their counters included."""
    sets = [{"name": f"chip-{number}", "counters": amounts(units=parts)} for number in range(count)]
    rows = [row for number in range(count) for row in chip(parts=parts, number=number)]
    return [
        device_slice(f"{node}-counters", node, count=2, sharedCounters=sets),
        device_slice(f"{node}-devices", node, rows, count=2),
    ]


def device_request(name: str = "r", kind: str = "gpu", count: int = 1, **more: Any) -> Raw:
    """Return a request for devices whose attribute `kind` has this value; an empty `kind` matches all."""
    selectors = [{"cel": {"expression": f'{A}.kind == "{kind}"'}}] if kind else []
    exact = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": selectors,
    } | more
    return {"name": name, "exactly": exact}


def claim(name: str, *requests: Raw, constraints: Sequence[Raw] = (), config: Sequence[Raw] = ()) -> Claim:
    """Return a claim with these requests, in namespace `ns`."""
    devices: Raw = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    return Claim.from_json(
        {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"devices": devices}}
    )


def cluster(*slices: Slice, nodes: Sequence[str] = ("n1",), features: Features = DEFAULT_FEATURES) -> State:
    """Return a state that knows the nodes, the slices and a class `any` for the driver."""
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


EIGHT = 8


def cluster_of_models(rows: Mapping[str, tuple[str, int]]) -> State:
    """Return a state of nodes with eight devices of one model each. `rows`: model and number of free devices by node."""
    state = cluster(nodes=())
    for name, (model, free) in rows.items():
        put_model_node(state, name, model, free)
    return state


def put_model_node(state: State, name: str, model: str, free: int) -> None:
    """Add a node. `model`: the words that requests may match; `free`: devices that nobody holds."""
    attributes = {"model": {"string": model}}
    total = EIGHT if free > 1 else 1
    state.put_node(name, {})
    state.put_slice(
        device_slice(name, name, [device(f"gpu-{n}", attributes=attributes) for n in range(total)])
    )
    held: Sequence[DeviceResult] = [
        DeviceResult("r", DeviceId(GPU, name, f"gpu-{n}")) for n in range(total - free)
    ]
    if held:
        state.hold(f"held-{name}", held)


def model_request(model: str, count: int) -> Raw:
    """Return a request for devices of a model; `all` matches every model."""
    word = "" if model == "all" else model
    selector = {"cel": {"expression": f'device.attributes["{GPU}"].model.contains("{word}")'}}
    return device_request(kind="", count=count, selectors=[selector])


Profiles = dict[str, tuple[int, int, tuple[int, ...]]]
"""By profile: engines, memory slices, and the first slice of every legal placement."""

SEVEN_ENGINES: Profiles = {
    "one": (1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "two": (2, 2, (0, 2, 4)),
    "three": (3, 4, (0, 4)),
    "four": (4, 4, (0,)),
    "seven": (7, 8, (0,)),
}
FOUR_ENGINES: Profiles = {"one": (1, 1, (0, 1, 2, 3)), "two": (2, 2, (0, 2)), "four": (4, 4, (0,))}


def partitionable_slices(node: str, chips: int, profiles: Profiles) -> list[Slice]:
    """Return the slices of a node with chips that can be partitioned by these profiles."""
    engines = max(need for need, _, _ in profiles.values())
    memory = max(size for _, size, _ in profiles.values())
    full = {"engines": engines} | {f"slice-{number}": 1 for number in range(memory)}
    sets = [
        {"name": f"chip-{chip}", "counters": {key: {"value": str(value)} for key, value in full.items()}}
        for chip in range(chips)
    ]
    rows = [
        device(
            f"{name}-{chip}-{start}",
            name,
            {"engines": need} | {f"slice-{number}": 1 for number in range(start, start + size)},
            f"chip-{chip}",
        )
        for chip in range(chips)
        for name, (need, size, starts) in profiles.items()
        for start in starts
    ]
    return [
        device_slice(f"{node}-sets", node, count=2, sharedCounters=sets),
        device_slice(f"{node}-chips", node, rows, count=2),
    ]


def drawn_slices(rng: random.Random, names: Sequence[str], kind: str, fewest: int = 1) -> list[Slice]:
    """Draw the slices of nodes: chips of `seven` or `four` engines, or (`whole`) as many devices as `fewest` to four."""
    slices: list[Slice] = []
    for name in names:
        if kind == "whole":
            rows = [device(f"gpu-{number}") for number in range(rng.randint(fewest, 4))]
            slices.append(device_slice(name, name, rows))
        else:
            profiles = SEVEN_ENGINES if kind == "seven" else FOUR_ENGINES
            slices += partitionable_slices(name, rng.randint(1, 2), profiles)
    return slices


def packing_instance(seed: int) -> tuple[State, list[Demand]]:
    """Return a small cluster of at most 40 placements, and demands for 0.7 to 1.5 times its engines."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    profiles, most = rng.choice([(SEVEN_ENGINES, 2), (FOUR_ENGINES, 5)])
    chips = rng.randint(1, most)
    names = ["n1", "n2"][: 2 if chips > 1 else 1]
    shares = [chips - chips // 2, chips // 2]
    slices = [
        one
        for name, share in zip(names, shares, strict=False)
        for one in partitionable_slices(name, share, profiles)
    ]
    engines = max(need for need, _, _ in profiles.values()) * chips
    left = int(engines * rng.uniform(0.7, 1.5))
    demands: list[Demand] = []
    while left > 0:
        name = rng.choice(list(profiles))
        left -= profiles[name][0]
        demands.append(Demand((claim(f"c{len(demands)}", device_request(kind=name)),)))
    return cluster(*slices, nodes=names), demands
