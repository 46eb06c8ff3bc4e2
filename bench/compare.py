"""Run ours and the peer on the same scenario files, alternating: files in, rows of figures out."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from apportion.errors import BrokenInput
from bench.peer import Peer, figures

SOLVABLE = ("late-match-sat", "backtrack")
"""Adversarial scenarios that have a solution; the others have none."""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario: the figures of every run, in order."""

    scenario: str
    ours: tuple[Mapping[str, Any], ...]
    peer: tuple[Mapping[str, Any], ...]

    def of(self, runs: Sequence[Mapping[str, Any]], key: str) -> float:
        """Return the median of a figure over the runs; NaN without runs."""
        return float(median(run[key] for run in runs)) if runs else float("nan")

    @property
    def ratio(self) -> float:
        """Return ours divided by the peer in claims per second."""
        return self.of(self.ours, "claimsPerSecond") / self.of(self.peer, "claimsPerSecond")

    @property
    def cpu_ratio(self) -> float:
        """Return ours divided by the peer in claims per second of CPU time, which a busy machine disturbs less."""
        return self.cpu_rate(self.ours) / self.cpu_rate(self.peer)

    def cpu_rate(self, runs: Sequence[Mapping[str, Any]]) -> float:
        """Return claims per second of CPU time."""
        return self.of(runs, "claims") / max(self.of(runs, "cpuSeconds"), 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return all figures."""
        ratio = {"ratio": self.ratio, "cpuRatio": self.cpu_ratio} if self.peer else {}
        return {"scenario": self.scenario, "ours": list(self.ours), "peer": list(self.peer)} | ratio


@dataclass(frozen=True, slots=True)
class Verdict:
    """Our result on an adversarial file."""

    scenario: str
    right: bool
    ms: float


def ours(file: Path, strategy: str, *arguments: str) -> Mapping[str, Any]:
    """Run a scenario with our allocator in a new process; raises BrokenInput."""
    made = subprocess.run(
        [sys.executable, "-m", "bench.scenario", str(file), "--strategy", strategy, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
    )
    if made.returncode:
        raise BrokenInput(made.stderr.decode(errors="replace").strip()[-500:], field=str(file))
    return figures(made.stdout)


def verdict(file: Path, strategy: str) -> Verdict:
    """Run ours on an adversarial file, which has one claim."""
    found = ours(file, strategy, "--timeout", "10s", "--ticks")
    name = found["scenario"].removeprefix("adversarial-").rpartition("-")[0]
    right = found["allocated" if name in SOLVABLE else "unallocated"] == 1
    # CPU time: other programs on the machine must not fail a file.
    return Verdict(found["scenario"], right, found["maxCpuMs"])


def compare(
    file: Path,
    strategy: str,
    peer: Peer | None,
    rounds: int,
    limit: int,
    *,
    both: bool = False,
    ticks: bool = False,
) -> Row:
    """Run ours and the peer `rounds` times, alternating. `limit`: claims the peer handles at most, 0: all; ours too with `both`.

    `ticks`: measure the CPU time of each claim too, which takes some microseconds a claim.
    """
    own = (*(("--limit", str(limit)) if both and limit else ()), *(("--ticks",) if ticks else ()))
    own_runs: list[Mapping[str, Any]] = []
    peer_runs: list[Mapping[str, Any]] = []
    for turn in range(rounds):
        if turn % 2 == 0:
            own_runs.append(ours(file, strategy, *own))
        if peer is not None:
            peer_runs.append(peer.run(file, *(("-limit", str(limit)) if limit else ())))
        if turn % 2:
            own_runs.append(ours(file, strategy, *own))
    return Row(own_runs[0]["scenario"], tuple(own_runs), tuple(peer_runs))


def overall(rows: Sequence[Row]) -> float | None:
    """Return the geometric mean of the ratios, None without a peer."""
    ratios = [row.ratio for row in rows if row.peer]
    return geometric_mean(ratios) if ratios else None
