"""Floors: the same scenarios, changed so that remembering helps little. A scenario in, a changed one out.

own-kinds: in no two nodes do the same devices agree in two attributes, so no two nodes are alike.
texts: a thousand different selector texts.
reads-uuid: one of the selectors reads an attribute that differs on every device, or on every chip.
"""

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.files import Wish, generate

TEXTS = 1000
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


def _own_kinds(world: World, _kind: str, rng: random.Random) -> None:
    for piece in world["slices"]:
        marks: dict[str, tuple[int, int]] = {}
        for device in piece["spec"].get("devices") or ():
            attributes = device["attributes"]
            chip = next(
                (
                    attributes[name]["string"]
                    for name in ("uuid", "parentUUID", "vdieID")
                    if name in attributes
                ),
                "",
            )
            bay, shelf = marks.setdefault(chip or device["name"], (rng.randrange(4), rng.randrange(4)))
            device["attributes"] = attributes | {
                "example.com/bay": {"int": bay},
                "example.com/shelf": {"int": shelf},
            }


def _texts(world: World, _kind: str, rng: random.Random) -> None:
    requests = _requests(world)
    each = max(TEXTS // len(set(map(_said, requests))), 1)
    for request in requests:
        number = rng.randrange(each)
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
