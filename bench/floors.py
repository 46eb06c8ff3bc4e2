"""Floors: the same scenarios, changed so that remembering helps little. A scenario in, a changed one out.

own-kinds: in hardly two nodes do the same devices sit together, nor agree in two more attributes.
texts: a thousand different selector texts, or as many as there are claims.
reads-uuid: one of the selectors reads an attribute that differs on every device, or on every chip.
"""

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.files import Wish, generate

TEXTS = 1000
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
IDENTITY = {"whole-gpu": "uuid", "mig": "parentUUID", "gpu-nic": "uuid", "vnpu": "vdieID"}
"""An attribute per scenario that names a device or its chip."""

World = dict[str, Any]


def floors(kind: str, wish: Wish) -> Iterator[tuple[str, Path]]:
    """Yield every floor of a scenario, made once."""
    for source in generate(kind, wish):
        for name, change in FLOORS.items():
            file = source.with_name(f"{source.name.partition('.')[0]}-{name}.floor.gz")
            if not file.exists():
                raw = source.read_bytes()
                world: World = orjson.loads(gzip.decompress(raw) if source.suffix == ".gz" else raw)
                change(world, kind, random.Random(wish.seed))
                world["name"] = f"{world['name']} {name}"
                scratch = file.with_suffix(".new")
                scratch.write_bytes(gzip.compress(orjson.dumps(world), 1))
                scratch.replace(file)
            yield name, file


def _own_kinds(world: World, kind: str, rng: random.Random) -> None:
    for pieces in _by_node(world):
        chips: dict[str, list[World]] = {}
        for piece in pieces:
            for device in piece["spec"].get("devices") or ():
                chips.setdefault(_chip(device), []).append(device)
        drivers: dict[bool, list[list[World]]] = {}
        for rows in chips.values():
            drivers.setdefault("linkSpeedGbps" in rows[0]["attributes"], []).append(rows)
        for alike in drivers.values():
            for rows, place in zip(alike, _places(alike, kind, rng), strict=True):
                marks = {
                    "example.com/bay": {"int": rng.randrange(4)},
                    "example.com/shelf": {"int": rng.randrange(4)},
                }
                for device in rows:
                    device["attributes"] = device["attributes"] | place | marks


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


def _places(chips: Sequence[list[World]], kind: str, rng: random.Random) -> list[World]:
    """Return where each chip sits: drawn anew, or shuffled where claims say what must sit together."""
    had = [
        {name: rows[0]["attributes"][name] for name in (ROOT, NUMA) if name in rows[0]["attributes"]}
        for rows in chips
    ]
    if kind == "gpu-nic":
        rng.shuffle(had)
        return had
    drawn = [rng.randrange(len(chips)) for _ in chips]
    places: World = {
        ROOT: [{"string": f"pci0000:{number}0"} for number in drawn],
        NUMA: [{"int": number // 2} for number in drawn],
    }
    return [{name: places[name][number] for name in row} for number, row in enumerate(had)]


def _texts(world: World, _kind: str, _rng: random.Random) -> None:
    requests = _requests(world)
    seen: Counter[bytes] = Counter()
    each = TEXTS // len({_selects(request) for request in requests})
    for request in requests:
        selects = _selects(request)
        number = seen[selects] % each
        seen[selects] += 1
        _also(request, f'device.driver != "driver-{number:04d}.example.com"')


def _reads_uuid(world: World, kind: str, _rng: random.Random) -> None:
    attribute = IDENTITY[kind]
    own = [request for request in _requests(world) if request.get("deviceClassName") != "nic.example.com"]
    drivers = Counter(piece["spec"]["driver"] for piece in world["slices"])
    driver = "gpu.nvidia.com" if "gpu.nvidia.com" in drivers else next(iter(drivers))
    read = f'device.attributes["{driver}"].?{attribute}.orValue("") != "none"'
    # The commonest question reads it; the others stay as they are.
    said = Counter(map(_said, own))
    commonest = said.most_common(1)[0][0]
    for request in own:
        if _said(request) == commonest:
            _also(request, read)


def _requests(world: World) -> list[World]:
    """Return the first request of every claim, which asks for the GPU or NPU."""
    return [claim["spec"]["devices"]["requests"][0]["exactly"] for claim in world["claims"]]


def _said(request: Mapping[str, Any]) -> bytes:
    return orjson.dumps([request["deviceClassName"], request["count"], request.get("selectors")])


def _selects(request: Mapping[str, Any]) -> bytes:
    return orjson.dumps([request["deviceClassName"], request.get("selectors")])


def _also(request: World, text: str) -> None:
    """Let a request ask for one thing more, in its own selector where it has one."""
    selectors = request.setdefault("selectors", [])
    if selectors:
        cel = selectors[0]["cel"]
        selectors[0] = {"cel": {"expression": f"({cel['expression']}) && {text}"}}
    else:
        selectors.append({"cel": {"expression": text}})


FLOORS: Mapping[str, Callable[[World, str, random.Random], None]] = {
    "own-kinds": _own_kinds,
    "texts": _texts,
    "reads-uuid": _reads_uuid,
}
