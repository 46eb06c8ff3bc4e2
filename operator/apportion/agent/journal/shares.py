"""Shares of devices in the journal: which of a claim's devices it has beside other claims, and how much of them.

In: a connection inside a transaction. Out: shares by the device's position in its claim's row. The owner is driver and UID of a
claim. A table of its own, because the agent of the last release reads the claims' devices with the fields that it knows.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence

from apportion.agent.rows import ClaimDevice, Share


def put(db: sqlite3.Connection, owner: str, devices: Sequence[ClaimDevice]) -> None:
    """Note the shares of a claim, instead of those before."""
    drop(db, owner)
    rows = [
        (owner, position, device.share.id, device.share.memory, device.share.cores)
        for position, device in enumerate(devices)
        if device.share is not None
    ]
    db.executemany("INSERT INTO shares VALUES (?,?,?,?,?)", rows)


def drop(db: sqlite3.Connection, owner: str) -> None:
    """Forget the shares of a claim."""
    db.execute("DELETE FROM shares WHERE owner=?", (owner,))


def of_all(db: sqlite3.Connection) -> Mapping[str, Mapping[int, Share]]:
    """Return the shares by owner and position."""
    found: dict[str, dict[int, Share]] = defaultdict(dict)
    for row in db.execute("SELECT * FROM shares"):
        found[row["owner"]][row["position"]] = Share(row["share"], row["memory"], row["cores"])
    return found


def of_owner(db: sqlite3.Connection, owner: str) -> Mapping[int, Share]:
    """Return the shares of one owner by position."""
    rows = db.execute("SELECT * FROM shares WHERE owner=?", (owner,))
    return {row["position"]: Share(row["share"], row["memory"], row["cores"]) for row in rows}
