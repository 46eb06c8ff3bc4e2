"""Scenario files made by the shared generator, or by `bench.shares`.

In: scenario, size, demand and seed. Out: files in the cache.
"""

import gzip
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from apportion.errors import BrokenInput
from bench.folders import cache, shared
from bench.shares import shares

MANY = 500
"""Number of nodes from which on files are compressed."""

CHURN = ("whole-gpu", "mig", "gpu-nic", "vnpu", "shares")

SIZES = {"tiny": 4, "small": 100, "large": 1000}


@dataclass(frozen=True, slots=True)
class ScenarioSpec:
    """Parameters of a generated scenario."""

    size: str
    """tiny, small or large (4, 100, 1,000 nodes), or a number of nodes."""
    demand: float | None = None
    """Requested fraction of the capacity; None: the scenario's default."""
    seed: int = 1


def generate(scenario: str, spec: ScenarioSpec) -> Sequence[Path]:
    """Return the files of a scenario, from the cache if they exist; raises BrokenInput."""
    folder = cache() / f"{scenario}-{spec.size}-{spec.demand or 'own'}-{spec.seed}"
    done = folder / ".done"
    if not done.exists() and scenario == "shares":
        folder.mkdir(parents=True, exist_ok=True)
        nodes = int(spec.size) if spec.size.isdigit() else SIZES[spec.size]
        content = orjson.dumps(shares(nodes, spec.demand, spec.seed))
        many = nodes >= MANY
        file = folder / f"shares-{spec.size}.json{'.gz' if many else ''}"
        file.write_bytes(gzip.compress(content, 1) if many else content)
        done.touch()
    elif not done.exists():
        generator = shared("peer/scenarios.py")
        size = ("--nodes", spec.size) if spec.size.isdigit() else ("--size", spec.size)
        command = [
            sys.executable,
            str(generator),
            scenario,
            *size,
            "--seed",
            str(spec.seed),
            "--out",
            str(folder),
        ]
        if spec.demand is not None:
            command += ["--demand", str(spec.demand)]
        if spec.size == "large" or (spec.size.isdigit() and int(spec.size) >= MANY):
            command.append("--gzip")
        made = subprocess.run(command, check=False, capture_output=True)
        if made.returncode:
            raise BrokenInput(
                made.stderr.decode(errors="replace").strip()[-500:], field=f"scenario {scenario}"
            )
        done.touch()
    return sorted(folder.glob("*.json*"))
