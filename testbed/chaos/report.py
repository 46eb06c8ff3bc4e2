"""The report: one row a kill, as CSV or JSON lines by the file's ending.

In: kills as they happen. Out: a file that a spreadsheet or jq reads.
"""

import csv
import json
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.chaos.judge import Sight


@dataclass(slots=True)
class Kill:
    """One kill and what came of it."""

    number: int
    node: str
    kind: str
    """`moment`, `step` or `call`."""
    step: str
    """The boundary, or how many milliseconds after what."""
    doing: str
    """The plays that were under way."""
    reboot: bool
    cut: bool
    """Whether the way to the API server was cut in the same round."""
    before: str
    after: str = ""
    seconds: float = 0.0
    """From the kill until everything was right again."""
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


def state(sight: Sight) -> str:
    """Say in one line what is there: partitions (! is half made, * made by a person), CDI files, containers, objects."""
    cuts = [
        f"{cut.card}/{cut.profile}@{cut.start}{'' if cut.uuid else '!'}{'*' if cut.uuid in sight.strangers else ''}"
        for cut in sight.cuts
    ]
    phases = Counter(item.get("status", {}).get("phase", "new") for item in sight.partitions)
    objects = f" objects={','.join(f'{phase}:{n}' for phase, n in sorted(phases.items()))}" if phases else ""
    return f"cut={','.join(cuts) or '-'} cdi={len(sight.injections)} running={len(sight.containers)}{objects}"
