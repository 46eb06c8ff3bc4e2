"""The file of the journal: opened, made, brought up from an older release, or set aside when it is broken.

In: a path. Out: a connection (WAL, synchronous=FULL). Only a file that is broken itself is set aside. A disk that is full or
read-only, an error of its driver, and a lock of another process say nothing about the file: it stays where it is.
"""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from apportion.errors import NotReady

_log = structlog.get_logger()

_STEPS: Final[tuple[str, ...]] = (
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
    # A journal that an agent has used has nothing to recover.
    """
    CREATE TABLE recovered (done INTEGER NOT NULL) STRICT;
    INSERT INTO recovered SELECT 1 FROM boot;
    CREATE TABLE interrupted (uid TEXT PRIMARY KEY) STRICT
    """,
    # A name belongs to one card for good, and a row to the card that it was written for.
    """
    CREATE TABLE cards (name TEXT PRIMARY KEY, uuid TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE row_cards (
        owner TEXT NOT NULL, card TEXT NOT NULL, uuid TEXT NOT NULL, PRIMARY KEY (owner, card)) STRICT
    """,
    # How claims have had devices set up for the programs that share them.
    """
    CREATE TABLE sharing (
        uid TEXT NOT NULL, driver TEXT NOT NULL, setup TEXT NOT NULL, PRIMARY KEY (uid, driver)) STRICT
    """,
    # A device that serves several claims.
    """
    CREATE TABLE shares (
        owner TEXT NOT NULL, position INTEGER NOT NULL, share TEXT NOT NULL, memory INTEGER NOT NULL,
        cores INTEGER NOT NULL, PRIMARY KEY (owner, position)) STRICT
    """,
    # Interfaces of NICs that claims have in their pods.
    """
    CREATE TABLE networks (
        claim TEXT NOT NULL, driver TEXT NOT NULL, device TEXT NOT NULL, card TEXT NOT NULL, pod TEXT NOT NULL,
        interface TEXT NOT NULL, wanted TEXT NOT NULL, step TEXT NOT NULL, before TEXT NOT NULL, nic TEXT NOT NULL,
        PRIMARY KEY (claim, driver, device)) STRICT
    """,
)
"""From an empty file to today's, never changed once released: what is new is a step at the end.

The agent of another release may have the file open (rolling update), or get it (downgrade): a step leaves the statements of all before valid,
so it adds tables, never columns, and a row of a new table may name what an earlier release has removed meanwhile. A step that cannot do so makes the
table `needed` with one number: how many steps an agent must know to use the file (docs/adr/0038-journals-of-later-releases.md).
"""
_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""Result codes of a disk, or a quota, that takes no more: some writes that it refuses are I/O errors."""
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Result codes that blame the file's content (sqlite.org/rescode.html); the low byte of an extended code is one of these."""
UNREADABLE: Final = (ValueError, LookupError, TypeError)
"""What the reading of a row raises whose content no agent wrote: SQLite has no checksums."""
_MOST_BROKEN: Final = 8
"""Broken files that are kept."""


class _BrokenFile(Exception):  # noqa: N818 - named after what is broken
    """The content of the file is no journal that this release can use."""


def is_broken(error: sqlite3.Error) -> bool:
    """Say whether an error blames the content of the file."""
    return _code(error) in _BROKEN


def is_full(error: sqlite3.Error) -> bool:
    """Say whether an error may come from a disk without room."""
    return _code(error) in _FULL


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def open_file(
    path: Path,
    tables: Iterable[Callable[[sqlite3.Connection], object]],
    patience: float,
    *,
    more_room: Callable[[], bool] = lambda: False,
) -> sqlite3.Connection:
    """Open or make a journal; one of an older release is brought up, its rows kept. `tables` read all rows.

    `patience`: seconds for which each access waits for another process that has locked the file. `more_room` makes some on a full
    disk, and says whether it did: to open a file takes a log and what readers share.

    One of a later release is used as it is; a broken one, or one that only later releases can use, is set aside. Raises NotReady when it cannot be opened for any other reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _open_in_room(path, tables, patience, more_room)
        except _BrokenFile as error:
            # SQLite takes bytes that the disk does not give (EIO) for broken ones; a plain read tells them apart.
            path.read_bytes()
            aside = _set_aside(path)
            _log.error("journal.broken", error=str(error), set_aside=aside and aside.name)
            return _open_in_room(path, tables, patience, more_room)
    except (sqlite3.Error, OSError, _BrokenFile) as error:
        raise NotReady(f"the journal {path} cannot be opened, and stays as it is: {error}") from None


def _open_in_room(
    path: Path,
    tables: Iterable[Callable[[sqlite3.Connection], object]],
    patience: float,
    more_room: Callable[[], bool],
) -> sqlite3.Connection:
    while True:
        try:
            return _open(path, tables, patience)
        except sqlite3.OperationalError as error:
            if not (is_full(error) and more_room()):
                raise


def _open(
    path: Path, tables: Iterable[Callable[[sqlite3.Connection], object]], patience: float
) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        _prepare(db)
        for read in tables:
            read(db)
    except sqlite3.DatabaseError as error:
        db.close()
        if is_broken(error):
            raise _BrokenFile(str(error)) from None
        raise
    except UNREADABLE as error:
        db.close()
        raise _BrokenFile(f"a row cannot be read: {error!r}") from None
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    _read_as_rows(db)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    # quick_check does not look at indexes, and a broken one would end every agent anew. A journal is small.
    found = db.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        raise _BrokenFile(found)
    _migrate(db)


def open_to_read(path: Path, patience: float) -> sqlite3.Connection:
    """Open a journal that is there, for reading only. Raises sqlite3.Error."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
    )
    _read_as_rows(db)
    return db


def _read_as_rows(db: sqlite3.Connection) -> None:
    db.row_factory = sqlite3.Row
    # sqlite3 calls text that cannot be decoded an error of the operation.
    db.text_factory = bytes.decode


def _set_aside(path: Path) -> Path | None:
    """Rename a broken file and its log; the first ones are kept, and one more is removed (None)."""
    names = ("broken" if number == 0 else f"broken.{number}" for number in range(_MOST_BROKEN))
    free = (path.with_suffix(f".{name}") for name in names)
    aside = next((file for file in free if not file.exists()), None)
    log = path.with_name(path.name + "-wal")
    if aside is None:
        path.unlink()
    else:
        path.replace(aside)
        if log.exists():
            log.replace(aside.with_name(aside.name + "-wal"))
    # SQLite would take a log that is left for that of the new file.
    for extra in (log, path.with_name(path.name + "-shm")):
        extra.unlink(missing_ok=True)
    return aside


def _migrate(db: sqlite3.Connection) -> None:
    """Take the steps that a file lacks; each is one transaction that also notes its number (`user_version`).

    A kill leaves the file before a step or after it. Raises _BrokenFile for a file that only later releases can use.
    """
    needed = _needed(db)
    if needed > len(_STEPS):
        raise _BrokenFile(
            f"it needs an agent that knows {needed} steps of its schema; known are {len(_STEPS)}"
        )
    while _version(db) < len(_STEPS):
        with db:
            db.execute("BEGIN IMMEDIATE")  # two agents may start at once: only one takes a step
            done = _version(db)
            if done < len(_STEPS):
                for statement in _STEPS[done].split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version={done + 1}")


def _needed(db: sqlite3.Connection) -> int:
    """Return how many steps an agent must know; a file of today's releases says nothing."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name='needed'").fetchone() is None:
        return 0
    return max((int(row["steps"]) for row in db.execute("SELECT steps FROM needed")), default=0)


def _version(db: sqlite3.Connection) -> int:
    (done,) = db.execute("PRAGMA user_version").fetchone()
    return int(done)
