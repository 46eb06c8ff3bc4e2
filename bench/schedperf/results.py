"""What one run of upstream's benchmark has left behind.

In: a folder with upstream's JSON and .dat files and the sampler's .cpu.csv. Out: pods per second, and the CPU time of each process.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from apportion.errors import BrokenInput

_THROUGHPUT = "SchedulingThroughput"
_DURATION = "SchedulingDuration"


@dataclass(frozen=True, slots=True)
class Result:
    """One run's figures."""

    throughput: Mapping[str, float]
    """Pods per second: upstream's Average, Perc50, Perc90, ... Empty for a run of about a second: upstream looks once a second."""
    duration: float
    """Seconds until the last pod was scheduled, as upstream says."""
    pods: int
    seconds: float
    """Length of the measured window."""
    cpu: Mapping[str, float]
    """CPU seconds in the window: `test` (apiserver, scheduler, controllers, the test itself), `operator`, `others` (etcd among them)."""
    load: tuple[float, float]
    """Lowest and highest load average of the last minute."""

    @property
    def average(self) -> float:
        """Pods per second, upstream's average; 0: the run was too short for one."""
        return self.throughput.get("Average", 0.0)

    @property
    def cpu_ms_per_pod(self) -> float:
        """Milliseconds of CPU time of test process and operator together, by pod; etcd is left out, others' work too."""
        return 1000 * (self.cpu.get("test", 0.0) + self.cpu.get("operator", 0.0)) / max(self.pods, 1)

    def to_json(self) -> Mapping[str, Any]:
        """Return the part of the JSON line."""
        return {
            "podsPerSecond": dict(self.throughput),
            "schedulingSeconds": round(self.duration, 3),
            "pods": self.pods,
            "seconds": round(self.seconds, 1),
            "cpuSeconds": {name: round(spent, 1) for name, spent in self.cpu.items()},
            "cpuMsPerPod": round(self.cpu_ms_per_pod, 2),
            "load": list(self.load),
        }


def result(folder: Path) -> Result:
    """Read a run. Raises BrokenInput when it scheduled nothing."""
    measured = _measured(folder)
    if _DURATION not in measured:
        raise BrokenInput(f"the run left no {_DURATION}", field=str(folder))
    throughput, duration = measured.get(_THROUGHPUT, {}), measured[_DURATION]["Duration"]
    progress, samples = _one(folder, "*.dat"), _one(folder, "*.cpu.csv")
    if progress is None or samples is None:
        return Result(throughput, duration, 0, 0.0, {}, (0.0, 0.0))
    rows = [line.split() for line in progress.read_text(encoding="utf-8").splitlines()]
    until = progress.stat().st_mtime
    # A row is "12.3s ... pods"; the first one is written a second after the beginning.
    since, pods = until - float(rows[-1][0].rstrip("s")) - 1, int(rows[-1][3])
    with samples.open(encoding="utf-8") as lines:
        window = [row for row in csv.DictReader(lines) if since - 1 <= float(row["time"]) <= until + 1]
    return Result(throughput, duration, pods, *_spent(window))


def _measured(folder: Path) -> Mapping[str, Mapping[str, float]]:
    """Return upstream's throughput and duration of the measured pods, by metric."""
    items = (
        item
        for file in sorted(folder.rglob("*.json"))
        for item in orjson.loads(file.read_bytes())["dataItems"] or ()
    )
    return {
        item["labels"]["Metric"]: {name: float(value) for name, value in item["data"].items()}
        for item in items
        if item["labels"]["Metric"] in (_THROUGHPUT, _DURATION)
    }


def _spent(
    window: Sequence[Mapping[str, str]],
) -> tuple[float, Mapping[str, float], tuple[float, float]]:
    """Return seconds, CPU seconds and load of the samples in the window."""
    if len(window) < 2:
        return 0.0, {}, (0.0, 0.0)
    first, last = window[0], window[-1]
    spent = {name: float(last[name]) - float(first[name]) for name in ("time", "test", "operator", "machine")}
    if float(first["operator"]) == 0:
        spent["operator"] = 0.0
    seconds, machine = spent.pop("time"), spent.pop("machine")
    loads = [float(row["load1"]) for row in window]
    return seconds, spent | {"others": machine - sum(spent.values())}, (min(loads), max(loads))


def _one(folder: Path, pattern: str) -> Path | None:
    """Return the file of the run; the last one where upstream wrote several."""
    return max(folder.rglob(pattern), key=lambda file: file.stat().st_mtime, default=None)
