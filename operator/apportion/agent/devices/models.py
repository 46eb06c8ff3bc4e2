"""Models: the data files as profiles and totals.

In: a model's name, or name, board id and memory of an Ascend chip. Out: what such a card has. Real backends discover; only vNPU
templates, which Ascend's library does not list, are looked up here when the node has no npu-smi.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from apportion.agent.devices.values import MIB, CardKind, CounterAmounts, Placement, Profile
from apportion.errors import BrokenInput

GPU_ENGINES = ("copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines")
NPU_ENGINES = ("vpc", "vdec", "venc", "jpegd", "jpege")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, where PyYAML is built with it: the other one takes ten times as long, and an agent reads these files when it starts."""


@dataclass(frozen=True, slots=True)
class CardModel:
    """One model of card."""

    name: str
    kind: CardKind
    product: str
    capacity: CounterAmounts
    totals: CounterAmounts
    profiles: tuple[Profile, ...]
    slices: int = 0
    """Memory slices; GPUs only."""
    ids: int = 0
    """How many partition ids a chip has; NPUs only."""
    ring: int = 0
    """How many chips share one HCCS group, 0 for none; NPUs only."""
    most: int = 0
    """How many partitions a chip holds, 0 for no limit of its own; NPUs only."""
    architecture: str = ""
    cuda: str = ""
    family: str = ""
    """Chips whose board ids are one space; NPUs only."""
    chips: frozenset[str] = frozenset()
    """Names that the driver gives such chips; NPUs only."""
    boards: frozenset[int] = frozenset()
    """Board ids of such chips, where they decide; NPUs only."""


def model(name: str) -> CardModel:
    """Return the model of this name; raises BrokenInput that lists the known ones."""
    known = _models()
    if name not in known:
        raise BrokenInput(f"unknown model {name!r}; known are {', '.join(sorted(known))}", field="model")
    return known[name]


def of_chip(chip: str, board: int | None, memory: int) -> CardModel | None:
    """Return the model of an NPU chip by name, board id and memory (bytes) as the driver reports them; None: unknown.

    The board decides before the name: so does the driver when it checks a template's name.
    """
    npus = [found for found in _models().values() if found.kind is CardKind.NPU]
    named = [found for found in npus if chip in found.chips]
    families = {found.family for found in named}
    boarded = [found for found in npus if found.family in families and board in found.boards]
    return min(boarded or named, key=lambda found: abs(found.totals["memory"] - memory), default=None)


def names() -> tuple[str, ...]:
    """Return the names of all models."""
    return tuple(sorted(_models()))


@cache
def _models() -> Mapping[str, CardModel]:
    gpus = {name: _gpu(name, raw) for name, raw in _read("gpu-models.yaml").items()}
    npus = {name: _npu(name, raw) for name, raw in _read("npu-models.yaml").items()}
    return {**gpus, **npus}


def _read(file: str) -> dict[str, Any]:
    text = files("apportion.agent").joinpath("data", file).read_text(encoding="utf-8")
    models: dict[str, Any] = yaml.load(text, Loader=_LOADER)["models"]  # noqa: S506 - both are safe ones
    return models


def _gpu(name: str, raw: Mapping[str, Any]) -> CardModel:
    profiles = tuple(
        Profile(
            name=row["name"],
            number=row["id"],
            amounts={
                "memory": row["memory"] * MIB,
                "multiprocessors": row["sm"],
                **dict(zip(GPU_ENGINES, row["engines"], strict=True)),
            },
            placements=tuple(Placement(start, size) for start, size in row["placements"]),
            most=row["most"],
        )
        for row in raw["profiles"]
    )
    # NVIDIA's own rule for shared counters: the largest value that any profile has.
    totals = {key: max(profile.amounts[key] for profile in profiles) for key in profiles[0].amounts}
    return CardModel(
        name=name,
        kind=CardKind.GPU,
        product=raw["product"],
        capacity={**totals, "memory": raw["memory"] * MIB},
        totals=totals,
        profiles=profiles,
        slices=raw["slices"],
        architecture=raw["architecture"],
        cuda=raw["cuda"],
    )


def _npu(name: str, raw: Mapping[str, Any]) -> CardModel:
    totals = _npu_amounts(raw["total"])
    templates = ((row["name"], _npu_amounts(row)) for row in raw["templates"])
    return CardModel(
        name=name,
        kind=CardKind.NPU,
        product=raw["product"],
        capacity=totals,
        totals=totals,
        profiles=tuple(
            Profile(
                name=template,
                amounts=amounts,
                most=min(totals[key] // amount for key, amount in amounts.items() if amount),
            )
            for template, amounts in templates
        ),
        ids=raw["ids"],
        ring=raw.get("ring", 0),
        most=raw["most"],
        family=raw["family"],
        chips=frozenset(raw["chips"]),
        boards=frozenset(raw.get("boards", ())),
    )


def _npu_amounts(row: Mapping[str, Any]) -> CounterAmounts:
    return {
        "aicore": row["aicore"],
        "aicpu": row["aicpu"],
        "memory": row["memory"] * MIB,
        **dict(zip(NPU_ENGINES, row["engines"], strict=True)),
    }
