"""Upstream's workloads, as its own files name them, and which of them the operator cannot serve.

In: the folder of Kubernetes' source. Out: workloads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from apportion.errors import BrokenInput

ROOT: Final = "test/integration/scheduler_perf"
CHOSEN: Final = (
    "SchedulingWithResourceClaimTemplate/5000pods_500nodes",
    "SchedulingWithResourceClaimTemplate/empty_500nodes",
    "SchedulingWithResourceClaimTemplate/half_500nodes",
    "SchedulingWithResourceClaimTemplate/full_500nodes",
    "PartitionableBacktracking/empty_500nodes",
    "PartitionableBacktracking/empty_1000nodes",
)
"""What is run unless cases are named."""
_SUITE: Final = "dra"
_UNSERVED: Final[Mapping[str, str]] = {
    "PublishResourceSlices": "no pods and no claims: it measures the publishing of slices",
    "ExtendedResource": "kube-scheduler makes the claim of an extended resource itself, when it has chosen a node",
    "ExtendedResourceScoring": "as ExtendedResource, with kube-scheduler's own scoring",
}
"""By case: why the operator cannot serve it."""
_INCOMPLETE: Final = "upstream's file names no measurePods for it: it cannot run, with us or without"
_ALLOCATOR = re.compile(r'EnableAllocators\("(\w+)"\)')


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload of one case."""

    suite: str
    """Folder below scheduler_perf, as in `dra/partitionabledevices`."""
    case: str
    name: str
    allocator: str
    """Which of kube-scheduler's allocators upstream's benchmark of the suite takes."""
    unserved: str = ""
    """Why the operator cannot serve it; empty: it can."""
    broken: str = ""
    """Why it cannot run at all; empty: it can."""

    @property
    def title(self) -> str:
        """Return case and workload."""
        return f"{self.case}/{self.name}"

    @property
    def pattern(self) -> str:
        """Return what `-test.bench` takes, below the benchmark's own name."""
        return f"^{self.case}$/^{self.name}$"


def workloads(kubernetes: Path) -> Sequence[Workload]:
    """Read all workloads of DRA. Raises BrokenInput when Kubernetes' source has none."""
    files = sorted((kubernetes / ROOT / _SUITE).rglob("performance-config.yaml"))
    found = [each for file in files for each in _read(file, kubernetes / ROOT)]
    if not found:
        raise BrokenInput(f"{kubernetes / ROOT / _SUITE} has no performance-config.yaml", field="kubernetes")
    return found


def choose(found: Sequence[Workload], patterns: Sequence[str]) -> Sequence[Workload]:
    """Return the workloads that CASE/WORKLOAD patterns (as of a shell) name. Raises BrokenInput for one that names none."""
    chosen: list[Workload] = []
    for pattern in patterns:
        matched = [each for each in found if fnmatchcase(each.title, pattern)]
        if not matched:
            raise BrokenInput(f"--case {pattern}: upstream has no such workload; --list shows all")
        chosen += [each for each in matched if each not in chosen]
    return chosen


def _read(file: Path, root: Path) -> Iterator[Workload]:
    suite = str(file.parent.relative_to(root))
    allocator = next(
        (
            found.group(1)
            for source in sorted(file.parent.glob("*_test.go"))
            if (found := _ALLOCATOR.search(source.read_text(encoding="utf-8")))
        ),
        "incubating",
    )
    rows: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    for case in rows:
        counted = any(operation.get("countParam") == "$measurePods" for operation in case["workloadTemplate"])
        for row in case["workloads"]:
            complete = not counted or "measurePods" in row.get("params", {})
            yield Workload(
                suite=suite,
                case=case["name"],
                name=row["name"],
                allocator=allocator,
                unserved=_UNSERVED.get(case["name"], ""),
                broken="" if complete else _INCOMPLETE,
            )
