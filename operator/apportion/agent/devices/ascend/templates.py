"""The vNPU templates of a chip: from npu-smi where it is there, else from Huawei's published tables.

In: a chip's card number, its model and totals. Out: profiles. DCMI takes a template's name but lists none: only npu-smi
prints them (`npu-smi info -t template-info`), and it shows memory rounded up.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import structlog

from apportion.agent.devices.models import CardModel
from apportion.agent.devices.values import MIB, CounterAmounts, Profile

_log = structlog.get_logger()

_PATIENCE = 20.0
"""Seconds; npu-smi looks at every card of the node before it answers."""
_COLUMNS = (("aicore", "memory", "aicpu", "vpc", "venc", "jpegd"), ("", "", "", "pngd", "vdec", "jpege"))
_GIB = 1024 * MIB


def ask(card: int, root: Path) -> str:
    """Return what npu-smi prints of a card's templates; "" without npu-smi, or when it refuses (its exit status is not reliable)."""
    program = shutil.which("npu-smi") or str(root / "usr/local/bin/npu-smi")
    command = [program, "info", "-t", "template-info", "-i", str(card)]
    try:
        # The arguments are ours: a fixed query and a number.
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.info("ascend.no_npu_smi", card=card, error=str(error))
        return ""
    return done.stdout


def parse(text: str) -> dict[str, CounterAmounts]:
    """Read `template-info`: a template is two rows, the second with more engines. What is not a number is left out."""
    found: dict[str, dict[str, int]] = {}
    name = ""
    for line in text.splitlines():
        cells = line.strip().strip("|").split()
        first = bool(cells) and not line.strip().strip("|").startswith(" " * 20)
        if not line.strip().startswith("|") or not cells or not re.fullmatch(r"[\d.]+|NA", cells[-1]):
            continue
        if first:
            name, *cells = cells
            found[name] = {}
        columns = _COLUMNS[0] if first else tuple(filter(None, _COLUMNS[1]))
        for column, cell in zip(columns, cells, strict=False):
            if name and cell.isdigit():
                found[name][column] = int(cell) * (_GIB if column == "memory" else 1)
    return {
        template: {key: value for key, value in row.items() if key != "pngd"}
        for template, row in found.items()
        if {"aicore", "memory"} <= row.keys()
    }


def profiles(
    reported: Mapping[str, CounterAmounts], model: CardModel | None, totals: CounterAmounts
) -> tuple[Profile, ...]:
    """Return the profiles from npu-smi's output and the table. Empty: this chip's templates are unknown, or what they take of it."""
    if not (totals.get("aicore") and totals.get("memory")):
        return ()
    known = {profile.name: profile.amounts for profile in model.profiles} if model is not None else {}
    rows = {name: _exact(name, row, known, totals) for name, row in reported.items()} or known
    most = model.most if model is not None else 0
    return tuple(
        Profile(name=name, amounts=amounts, most=copies)
        for name, amounts in rows.items()
        if (copies := _copies(amounts, totals, most)) > 0
    )


def _exact(
    name: str, row: CounterAmounts, known: Mapping[str, CounterAmounts], totals: CounterAmounts
) -> CounterAmounts:
    """Return a template's amounts: the table's where both mean the same, else memory by its share of the cores."""
    if name in known and all(known[name].get(key) == row[key] for key in ("aicore", "aicpu") if key in row):
        return known[name]
    share = totals["memory"] * row["aicore"] // totals["aicore"]
    return {key: row.get(key, 0) for key in totals} | {"memory": min(row["memory"], share)}


def _copies(amounts: CounterAmounts, totals: CounterAmounts, most: int) -> int:
    fits = [totals[key] // amount for key, amount in amounts.items() if amount and key in totals]
    return min([*fits, most] if most else fits, default=0)
