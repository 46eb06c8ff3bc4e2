"""How claims have had their devices set up, in the journal: time slices and MPS, by claim.

In: a connection inside a transaction, rows. Out: rows, or a NotReady naming the claim that has a device set up otherwise. A table of its
own, because the agent of the last release writes the others with the columns that it knows.
"""

import sqlite3

from apportion.agent.rows import SharingRow
from apportion.errors import NotReady


def every(db: sqlite3.Connection) -> tuple[SharingRow, ...]:
    """Return all rows, oldest first."""
    return tuple(
        SharingRow.from_json(found["setup"]) for found in db.execute("SELECT * FROM sharing ORDER BY rowid")
    )


def one(db: sqlite3.Connection, uid: str, driver: str) -> SharingRow | None:
    """Return the row of one claim and driver."""
    found = db.execute("SELECT * FROM sharing WHERE uid=? AND driver=?", (uid, driver)).fetchone()
    return SharingRow.from_json(found["setup"]) if found else None


def put(db: sqlite3.Connection, row: SharingRow) -> None:
    """Write what a claim has set up. Raises NotReady when another claim has one of the devices set up otherwise."""
    for other in every(db):
        if (other.uid, other.driver) != (row.uid, row.driver):
            why = _clash(row, other)
            if why:
                raise NotReady(
                    f"{why} by claim {other.uid}; it can be set up otherwise after that is unprepared"
                )
    db.execute(
        "INSERT INTO sharing VALUES (?,?,?) ON CONFLICT (uid, driver) DO UPDATE SET setup=excluded.setup",
        (row.uid, row.driver, row.to_json()),
    )


def drop(db: sqlite3.Connection, uid: str, driver: str) -> None:
    """Forget what a claim had set up: it was taken back."""
    db.execute("DELETE FROM sharing WHERE uid=? AND driver=?", (uid, driver))


def forget_all(db: sqlite3.Connection) -> None:
    """Forget everything: a reboot has taken it back."""
    db.execute("DELETE FROM sharing")


def _clash(row: SharingRow, other: SharingRow) -> str:
    """Say which device cannot be set up in both ways at once, "" if they agree."""
    there = {each.uuid: each for each in other.devices}
    for mine in row.devices:
        theirs = there.get(mine.uuid)
        if theirs is None:
            continue
        if (mine.time_slice, mine.mps) != (theirs.time_slice, theirs.mps):
            return f"device {mine.device} is shared otherwise"
        if mine.mps and (row.daemon != other.daemon or _limits(row) != _limits(other)):
            return f"device {mine.device} has a control daemon with other devices or limits"
    return ""


def _limits(row: SharingRow) -> tuple[object, ...]:
    """Return what a daemon is started with; limits that are a claim's own are not among it."""
    limits = (row.percentage, tuple(each.memory for each in row.under_mps))
    return (row.multi_user, row.own_limits, *(() if row.own_limits else limits))
