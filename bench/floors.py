"""Floors: scenarios changed so that the allocator's caches help little. A scenario file in, changed files out.

own-kinds: nearly every node is a node class of its own: PCIe roots, NUMA nodes and two more attributes differ.
texts: a thousand different selector texts, or as many as there are claims.
reads-uuid: the most frequent request reads an attribute that differs on every device, or on every chip.
"""

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.generator import ScenarioSpec, generate

TEXTS = 1000
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
IDENTITY = {"whole-gpu": "uuid", "mig": "parentUUID", "gpu-nic": "uuid", "vnpu": "vdieID", "shares": "uuid"}
"""Scenario -> an attribute that identifies a device or its chip."""

World = dict[str, Any]


def floors(scenario: str, spec: ScenarioSpec) -> Iterator[tuple[str, Path]]:
    """Yield name and file of every floor of a scenario, from the cache if they exist."""
    for source in generate(scenario, spec):
        for name, change in FLOORS.items():
            file = source.with_name(f"{source.name.partition('.')[0]}-{name}.floor.gz")
            if not file.exists():
                raw = source.read_bytes()
                world: World = orjson.loads(gzip.decompress(raw) if source.suffix == ".gz" else raw)
                change(world, scenario, random.Random(spec.seed))
                world["name"] = f"{world['name']} {name}"
                scratch = file.with_suffix(".new")
                scratch.write_bytes(gzip.compress(orjson.dumps(world), 1))
                scratch.replace(file)
            yield name, file


def _own_classes(world: World, scenario: str, rng: random.Random) -> None:
    for pieces in _by_node(world):
        chips: dict[str, list[World]] = {}
        for piece in pieces:
            for device in piece["spec"].get("devices") or ():
                chips.setdefault(_chip(device), []).append(device)
        drivers: dict[bool, list[list[World]]] = {}
        for rows in chips.values():
            drivers.setdefault("linkSpeedGbps" in rows[0]["attributes"], []).append(rows)
        for chips_of_driver in drivers.values():
            for rows, place in zip(
                chips_of_driver, _drawn_places(chips_of_driver, scenario, rng), strict=True
            ):
                extra = {
                    "example.com/bay": {"int": rng.randrange(4)},
                    "example.com/shelf": {"int": rng.randrange(4)},
                }
                for device in rows:
                    device["attributes"] = device["attributes"] | place | extra


def _by_node(world: World) -> Iterable[list[World]]:
    found: dict[str, list[World]] = {}
    for piece in world["slices"]:
        found.setdefault(piece["spec"]["nodeName"], []).append(piece)
    return found.values()


def _chip(device: World) -> str:
    attributes = device["attributes"]
    for name in ("parentUUID", "uuid", "vdieID"):
        if name in attributes:
            return str(attributes[name]["string"])
    return str(device["name"])


def _drawn_places(chips: Sequence[list[World]], scenario: str, rng: random.Random) -> list[World]:
    """Return PCIe root and NUMA node of each chip: drawn, or only shuffled where claims constrain them."""
    given = [
        {name: rows[0]["attributes"][name] for name in (ROOT, NUMA) if name in rows[0]["attributes"]}
        for rows in chips
    ]
    if scenario == "gpu-nic":
        rng.shuffle(given)
        return given
    drawn = [rng.randrange(len(chips)) for _ in chips]
    places: World = {
        ROOT: [{"string": f"pci0000:{number}0"} for number in drawn],
        NUMA: [{"int": number // 2} for number in drawn],
    }
    return [{name: places[name][number] for name in row} for number, row in enumerate(given)]


def _texts(world: World, _scenario: str, _rng: random.Random) -> None:
    requests = _requests(world)
    seen: Counter[bytes] = Counter()
    each = TEXTS // len({_selectors(request) for request in requests})
    for request in requests:
        selectors = _selectors(request)
        number = seen[selectors] % each
        seen[selectors] += 1
        _add_condition(request, f'device.driver != "driver-{number:04d}.example.com"')


def _reads_uuid(world: World, scenario: str, _rng: random.Random) -> None:
    attribute = IDENTITY[scenario]
    own = [request for request in _requests(world) if request.get("deviceClassName") != "nic.example.com"]
    drivers = Counter(piece["spec"]["driver"] for piece in world["slices"])
    driver = "gpu.nvidia.com" if "gpu.nvidia.com" in drivers else next(iter(drivers))
    read = f'device.attributes["{driver}"].?{attribute}.orValue("") != "none"'
    # The most frequent request reads it; the others are unchanged.
    queries = Counter(map(_query, own))
    most_frequent = queries.most_common(1)[0][0]
    for request in own:
        if _query(request) == most_frequent:
            _add_condition(request, read)


def _requests(world: World) -> list[World]:
    """Return the first request of every claim, the one for the GPU or NPU."""
    return [claim["spec"]["devices"]["requests"][0]["exactly"] for claim in world["claims"]]


def _query(request: Mapping[str, Any]) -> bytes:
    return orjson.dumps([request["deviceClassName"], request["count"], request.get("selectors")])


def _selectors(request: Mapping[str, Any]) -> bytes:
    return orjson.dumps([request["deviceClassName"], request.get("selectors")])


def _add_condition(request: World, text: str) -> None:
    """Add a condition to a request, in its first selector if it has one."""
    selectors = request.setdefault("selectors", [])
    if selectors:
        cel = selectors[0]["cel"]
        selectors[0] = {"cel": {"expression": f"({cel['expression']}) && {text}"}}
    else:
        selectors.append({"cel": {"expression": text}})


FLOORS: Mapping[str, Callable[[World, str, random.Random], None]] = {
    "own-kinds": _own_classes,
    "texts": _texts,
    "reads-uuid": _reads_uuid,
}
