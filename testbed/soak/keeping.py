"""What is kept of a soak that found something: the logs of all programs and the API server's audit log, and when each violation was seen first."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path


def keep(source: Path, folder: Path, problems: Sequence[str], first_seen: Mapping[str, float]) -> None:
    """Copy the logs of a control plane's folder to another one, which is made; `first_seen`: seconds since 1970 of those problems for which they are known."""
    folder.mkdir(parents=True, exist_ok=True)
    for log in source.glob("*.log*"):
        shutil.copy2(log, folder)
    lines = (f"{_time(first_seen.get(text))} {text}\n" for text in problems)
    (folder / "problems.txt").write_text("".join(lines))


def _time(seconds: float | None) -> str:
    return "at the end" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
