"""The journal's rows of network interfaces: SQL, and nothing else.

In: a connection inside of a transaction. Out: rows.
"""

import sqlite3
from dataclasses import asdict, fields
from typing import Final

from apportion.agent.rows import NetworkRow

_COLUMNS: Final = tuple(field.name for field in fields(NetworkRow))
_PUT: Final = f"INSERT OR REPLACE INTO networks ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"  # noqa: S608 - names of fields


def rows(db: sqlite3.Connection) -> tuple[NetworkRow, ...]:
    """Return all rows, oldest first."""
    found = db.execute("SELECT * FROM networks ORDER BY rowid").fetchall()
    return tuple(NetworkRow.from_columns(dict(raw)) for raw in found)


def put(db: sqlite3.Connection, row: NetworkRow) -> None:
    """Write a row, or its next step."""
    db.execute(_PUT, asdict(row))


def drop(db: sqlite3.Connection, row: NetworkRow) -> None:
    """Forget a row: its interface is on the host, as it was."""
    db.execute(
        "DELETE FROM networks WHERE claim=? AND driver=? AND device=?", (row.claim, row.driver, row.device)
    )
