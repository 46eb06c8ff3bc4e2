"""Reads a journal for a person, beside the agent that keeps it.

In: a file. Out: its rows, or a BrokenInput that says why they cannot be read.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from apportion.agent.journal import cards, rows
from apportion.agent.journal.file import UNREADABLE, open_to_read
from apportion.agent.rows import ClaimRow, PartitionRow
from apportion.errors import BrokenInput


def read_journal(path: Path) -> tuple[dict[str, PartitionRow], tuple[ClaimRow, ...], Mapping[str, str]]:
    """Read a journal that another process may be keeping, and change nothing; one that is not there is empty.

    Returns partitions, claims, and the UUIDs of cards by their names.

    Raises BrokenInput when it cannot be read.
    """
    if not path.exists():
        return {}, (), {}
    try:
        with closing(open_to_read(path, 10.0)) as db:
            return rows.partitions(db), rows.claims(db), cards.names(db)
    except (sqlite3.DatabaseError, *UNREADABLE) as error:
        raise BrokenInput(f"the journal {path} cannot be read: {error}") from None
