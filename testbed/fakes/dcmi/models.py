"""NPU models for the fake DCMI, from the product's own table.

In: a model's name, such as `910B4`, or one of chips that the table does not have: `A3`, `310B`, `950`, `unknown`. Out: its row of
the state file, without identity.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from testbed.fakes.dcmi.layout import A910, A950, B310, B910, C910, P310, Amounts, Chip

_FAMILIES = {"310P": P310, "910A": A910, "910B": B910}
_ENGINES = ("vpc", "vdec", "venc", "jpegd", "jpege")
_BEYOND = {
    # A3: two chips to a card, links through switches, and DCMI refuses every vNPU.
    "A3": {"family": C910, "chips": ["Ascend910"], "ids": 16, "most": 0, "ring": 16},
    # No vNPUs, one chip, on a board of its own or in a module.
    "310B": {"family": B310, "chips": ["310B4"], "ids": 16, "most": 0, "ring": 0},
    # Its interface is another one (dcmiv2).
    "950": {"family": A950, "chips": ["Ascend950DT"], "ids": 16, "most": 0, "ring": 0},
    # A chip that came out after the table was written; its driver has one template.
    "unknown": {"family": B910, "chips": ["910X1"], "ids": 16, "most": 4, "ring": 8, "board": 0x77},
}
_TOTAL = {"aicore": 24, "aicpu": 8, "memory": 65536, "engines": [10, 2, 0, 28, 4]}
_TEMPLATE = {"name": "vir12_4c_32g", "aicore": 12, "aicpu": 4, "memory": 32768, "engines": [5, 1, 0, 14, 2]}


@cache
def models() -> dict[str, Any]:
    """Return the table, by model."""
    text = files("apportion.agent").joinpath("data", "npu-models.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = yaml.safe_load(text)["models"]
    beyond = {
        name: {**row, "total": _TOTAL, "templates": [_TEMPLATE] if row["most"] else []}
        for name, row in _BEYOND.items()
    }
    return table | beyond


def chips_per_card(model: str) -> int:
    """Return how many chips share one card: two on an Atlas 300I Duo and on an A3 module."""
    return 2 if model in ("310P-48G", "A3") else 1


def ring(model: str) -> int:
    """Return how many chips are connected with each other by HCCS; 0: none."""
    found: int = models()[model].get("ring", 0)
    return found


def fill(chip: Chip, model: str) -> None:
    """Write everything about a model that does not depend on the single chip."""
    raw = models()[model]
    family = raw["family"]
    chip.family = family if isinstance(family, int) else _FAMILIES[family]
    chip.name = str(raw["chips"][0]).encode()
    chip.npu_name = (b"Ascend" + chip.name).replace(b"AscendAscend", b"Ascend")
    chip.board = raw.get("board", next(iter(raw.get("boards", [0x64]))))
    chip.most = raw["most"]
    chip.ids = raw["ids"]
    chip.groups = raw.get("groups", 0)
    _write(chip.total, raw["total"])
    chip.aicpus = raw.get("whole_aicpu", raw["total"]["aicpu"])
    chip.templates = len(raw["templates"])
    for template, row in zip(chip.template, raw["templates"], strict=False):
        template.name = row["name"].encode()
        _write(template.amounts, row)


def _write(amounts: Amounts, row: dict[str, Any]) -> None:
    amounts.aicore, amounts.aicpu, amounts.memory = row["aicore"], row["aicpu"], row["memory"]
    for name, value in zip(_ENGINES, row["engines"], strict=True):
        setattr(amounts, name, value)
