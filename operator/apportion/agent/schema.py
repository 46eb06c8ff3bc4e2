"""The journal's tables, and how those of an older release become today's.

In: an open file. Out: the same with today's tables, its rows kept. Each step is one transaction that also notes its number
(`user_version`), so that a kill leaves the file before a step or after it.
"""

import sqlite3
from typing import Final

STEPS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE boot (id TEXT NOT NULL);
    CREATE TABLE partitions (
        uid TEXT PRIMARY KEY, name TEXT NOT NULL, device TEXT NOT NULL, card TEXT NOT NULL, profile TEXT NOT NULL,
        start INTEGER NOT NULL, size INTEGER NOT NULL, layout TEXT NOT NULL, step TEXT NOT NULL,
        instance TEXT NOT NULL, uuid TEXT NOT NULL) STRICT;
    CREATE TABLE claims (
        uid TEXT NOT NULL, driver TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, step TEXT NOT NULL,
        devices TEXT NOT NULL, PRIMARY KEY (uid, driver)) STRICT
    """,
    # Every prepare asks for the partitions of one card.
    "CREATE INDEX partitions_by_card ON partitions (card)",
)
"""From an empty file to today's, never changed once released: what is new is a step at the end.

The agent of the last release may still have the file open (rolling update): a step leaves its statements valid.
"""


def migrate(db: sqlite3.Connection) -> None:
    """Take the steps that a file lacks. Raises DatabaseError for a file of a later release."""
    while _version(db) < len(STEPS):
        with db:
            db.execute("BEGIN IMMEDIATE")  # two agents may start at once: only one takes a step
            done = _version(db)
            if done < len(STEPS):
                for statement in STEPS[done].split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version={done + 1}")
    if _version(db) > len(STEPS):
        raise sqlite3.DatabaseError(f"its schema {_version(db)} is of a later release; known is {len(STEPS)}")


def _version(db: sqlite3.Connection) -> int:
    (done,) = db.execute("PRAGMA user_version").fetchone()
    return int(done)
