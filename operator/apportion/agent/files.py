"""Files that other processes read while we write them: replaced in one step.

In: a path and a text. Out: the file, by default on the disk when the call returns. A reader sees the old text or the new one. Of several
that write it at once, as the agents of a rolling update or two threads, one after the other does, each the whole of it.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apportion.errors import NotReady

UID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The UID of an object, as names of our files carry it."""
UNFINISHED = ".new"
"""Ends the name of a file that is being written; container runtimes read *.json and *.yaml only."""


def read_json(path: Path) -> dict[str, Any]:
    """Return a file's JSON object, {} if it cannot be read: a crash may have left it."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}


def write(path: Path, text: str, *, sync: bool = True) -> bool:
    """Write a file, or leave it if it has this text already; returns whether it was written.

    Without `sync` a power failure may lose it: for files that a reboot makes worthless anyway.
    """
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (OSError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(UNFINISHED)
    while True:
        with fresh.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(fresh, file.fileno()):
                # Who had it locked has put it in its place.
                continue
            file.truncate(0)
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            fresh.replace(path)
            return True


def _is_at(path: Path, file: int) -> bool:
    """Say whether an open file is still the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


@contextmanager
def writing(claim: str) -> Iterator[None]:
    """Raise NotReady where the files of a claim cannot be written or removed: a disk that is full or read-only is no defect of the agent."""
    try:
        yield
    except OSError as error:
        raise NotReady(f"ResourceClaim {claim}: its files cannot be written: {error}") from None
