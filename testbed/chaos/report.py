"""The report: one row per kill, as CSV or JSON lines by the file's ending.

In: kills as they happen. Out: the file.
"""

import csv
import json
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.chaos.invariants import Observation


@dataclass(slots=True)
class Kill:
    """One kill and what followed; the fields are the report's columns."""

    number: int
    node: str
    kind: str
    """`moment`, `step` or `call`."""
    step: str
    """The boundary, or for a random moment the milliseconds since the round's start."""
    doing: str
    """The scenarios that ran."""
    reboot: bool
    cut: bool
    """Whether the connection to the API server was cut in the same round."""
    before: str
    after: str = ""
    seconds: float = 0.0
    """From the kill until all invariants held again."""
    violations: str = ""


class Report:
    """`with Report(path) as report:` writes rows; without a path it writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> Self:
        """Open the file."""
        self._file = self._path.open("w", encoding="utf-8", newline="") if self._path else None
        self._csv = None
        if self._file is not None and self._path is not None and self._path.suffix == ".csv":
            self._csv = csv.DictWriter(self._file, [field.name for field in fields(Kill)])
            self._csv.writeheader()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def add(self, kill: Kill) -> None:
        """Write a row, at once."""
        if self._csv is not None:
            self._csv.writerow(asdict(kill))
        elif self._file is not None:
            self._file.write(json.dumps(asdict(kill)) + "\n")
        if self._file is not None:
            self._file.flush()


def summary(observation: Observation) -> str:
    """Return an observation in one line: partitions (! is half made, * foreign), CDI files, containers, objects."""
    live = [
        f"{row.card}/{row.profile}@{row.start}{'' if row.uuid else '!'}{'*' if row.uuid in observation.foreign else ''}"
        for row in observation.live
    ]
    phases = Counter(item.get("status", {}).get("phase", "new") for item in observation.objects)
    objects = f" objects={','.join(f'{phase}:{n}' for phase, n in sorted(phases.items()))}" if phases else ""
    return f"cut={','.join(live) or '-'} cdi={len(observation.cdi_files)} running={len(observation.containers)}{objects}"
