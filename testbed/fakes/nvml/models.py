"""GPU models for the fake NVML, from the product's own table of simulated models.

In: a model's name, such as `H100-80GB`. Out: its row of the state file, without identity. What the table leaves out follows
from it: NVML's profile constants from slices and suffix (nvml.h, NVML_GPU_INSTANCE_PROFILE_*), never equal to the ids.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from testbed.fakes.nvml.layout import Gpu, Profile

_ARCHITECTURES = {"Ampere": 7, "Ada": 8, "Hopper": 9, "Blackwell": 10}
_CONSTANTS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_MEDIA = {1: 7, 2: 8}  # 1_SLICE_REV1, 2_SLICE_REV1
_DOUBLE_MEMORY = 9  # 1_SLICE_REV2
_BRAND_NVIDIA = 14
_PCI_DEVICES = {"Ampere": 0x20B510DE, "Hopper": 0x233010DE}


@cache
def models() -> dict[str, Any]:
    """Return the table, by model."""
    text = files("apportion.agent").joinpath("data", "gpu-models.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = yaml.safe_load(text)["models"]
    return table


def fill(gpu: Gpu, model: str) -> None:
    """Write everything about a model that does not depend on the single card."""
    raw = models()[model]
    gpu.name = raw["product"].encode()
    gpu.architecture = _ARCHITECTURES[raw["architecture"]]
    gpu.cuda_major, gpu.cuda_minor = (int(part) for part in raw["cuda"].split(".")[:2])
    gpu.brand = _BRAND_NVIDIA
    gpu.pci_device = _PCI_DEVICES.get(raw["architecture"], 0x000010DE)
    gpu.memory = raw["memory"] << 20
    gpu.capable = 1
    gpu.slices = max(_slices(row["name"]) for row in raw["profiles"])
    gpu.profiles = len(raw["profiles"])
    for profile, row in zip(gpu.profile, raw["profiles"], strict=False):
        _fill(profile, row)


def _fill(profile: Profile, row: dict[str, Any]) -> None:
    profile.constant = _constant(row)
    profile.id = row["id"]
    profile.most = row["most"]
    profile.multiprocessors = row["sm"]
    profile.slices = _slices(row["name"])
    profile.memory_mb = row["memory"]
    profile.name = row["name"].encode()
    for index, amount in enumerate(row["engines"]):
        profile.engines[index] = amount
    profile.places = len(row["placements"])
    profile.size = row["placements"][0][1]
    for index, (start, _) in enumerate(row["placements"]):
        profile.starts[index] = start


def _slices(name: str) -> int:
    found = re.match(r"(\d+)g\.", name)
    if found is None:
        raise ValueError(f"profile {name!r} does not begin with its slices")
    return int(found[1])


def _constant(row: dict[str, Any]) -> int:
    slices = _slices(row["name"])
    if row["name"].endswith("+me"):
        return _MEDIA[slices]
    if slices == 1 and row["placements"][0][1] > 1:
        return _DOUBLE_MEMORY
    return _CONSTANTS[slices]
