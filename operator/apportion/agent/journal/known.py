"""What was read of a journal before, for as long as nobody has written to it since.

In: a connection, how to read. Out: the rows, read anew only after a write of this process or of another one. A look at what changed costs
microseconds, and reading the rows of a full node a millisecond; workers, polls and prepare calls read them all the time.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Known:
    """The rows of one connection. The caller lets one thread in at a time, and none during a transaction."""

    def __init__(self) -> None:
        self._version: tuple[int, int] = (0, 0)
        self._rows: dict[Callable[[sqlite3.Connection], Any], Any] = {}

    def get(self, db: sqlite3.Connection, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` finds; nobody may change it. Raises what sqlite3 raises."""
        # The first number changes with commits of other connections, the second with changes of this one (sqlite.org, PRAGMA
        # data_version). It is asked first, so that rows are never older than their version.
        version = db.execute("PRAGMA data_version").fetchone()[0], db.total_changes
        if version != self._version:
            self._rows.clear()
            self._version = version
        if read not in self._rows:
            self._rows[read] = read(db)
        found: T = self._rows[read]
        return found
