"""A transaction that writes: all of it, or nothing.

In: a connection. Out: the same inside the transaction, which ends with the block. Raises what sqlite3 raises.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Begin, and commit after the block, or roll back where it raises."""
    # IMMEDIATE takes the write lock at once, so that check and write see the same file.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
    except BaseException:
        # A full disk may have ended the transaction already.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
