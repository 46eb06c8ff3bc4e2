"""Scenario files: a kind, size, demand and seed in, a file in the cache out, made by the shared generator."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apportion.errors import BrokenInput
from bench.peer import cache
from bench.shared import shared

MANY = 500
"""Nodes from which on files are compressed."""

CHURN = ("whole-gpu", "mig", "gpu-nic", "vnpu")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the scenarios should be like."""

    size: str
    """tiny, small or large, or a number of nodes."""
    demand: float | None = None
    """Part of the capacity asked for; None: the scenario's own."""
    seed: int = 1


def generate(kind: str, wish: Wish) -> Sequence[Path]:
    """Return the files of a kind; those that exist are not made again. Raises BrokenInput."""
    generator = shared("peer/scenarios.py")
    folder = cache() / f"{kind}-{wish.size}-{wish.demand or 'own'}-{wish.seed}"
    done = folder / ".done"
    if not done.exists():
        size = ("--nodes", wish.size) if wish.size.isdigit() else ("--size", wish.size)
        command = [
            sys.executable,
            str(generator),
            kind,
            *size,
            "--seed",
            str(wish.seed),
            "--out",
            str(folder),
        ]
        if wish.demand is not None:
            command += ["--demand", str(wish.demand)]
        if wish.size == "large" or (wish.size.isdigit() and int(wish.size) >= MANY):
            command.append("--gzip")
        made = subprocess.run(command, check=False, capture_output=True)
        if made.returncode:
            raise BrokenInput(made.stderr.decode(errors="replace").strip()[-500:], field=f"scenario {kind}")
        done.touch()
    return sorted(folder.glob("*.json*"))
