"""What the journal says: a connection that only reads, and what was read before, for as long as nobody has written since.

In: a file, how to read. Out: the rows, read anew only after a write of this process or of another one. A look at what changed costs
microseconds, and reading the rows of a full node a millisecond; workers, polls and prepare calls read them all the time, in the event loop.
No read waits for a write (WAL), which may wait for another process, or for the disk.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from apportion.agent.journal.file import open_to_read

T = TypeVar("T")


class Known:
    """The rows of a file that is there. Thread-safe; raises what sqlite3 raises."""

    def __init__(self, path: Path, patience: float) -> None:
        """`patience`: as of the journal."""
        self._db = open_to_read(path, patience)
        self._lock = threading.Lock()
        self._version = 0
        self._rows: dict[Callable[[sqlite3.Connection], Any], Any] = {}

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the file as it is at one moment: rows of several tables belong together."""
        with self._lock:
            self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                # An error may have ended the transaction already.
                if self._db.in_transaction:
                    self._db.execute("COMMIT")

    def get(self, db: sqlite3.Connection, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` finds, `reading`; nobody may change it."""
        # It changes with each commit of another connection (sqlite.org, PRAGMA data_version); this one writes nothing.
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._rows.clear()
            self._version = version
        if read not in self._rows:
            self._rows[read] = read(db)
        found: T = self._rows[read]
        return found

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
