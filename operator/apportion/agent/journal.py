"""The journal: what this agent has begun and not finished, in SQLite, one transaction per step.

In: steps of partitions and of claims, before and after each irreversible act. Out: the same after a crash. Every write is
on the disk when the call returns (WAL, synchronous=FULL); two agents of a rolling update may share the file.

    partitions, by Partition UID:           Intent -> Created -> Ready -> Releasing -> gone
    claims, by claim UID and driver:        Preparing -> Injected -> Prepared -> Unpreparing -> gone
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.journalfile import open_file
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, PartitionRow, Step
from apportion.errors import BrokenInput, NotReady


class Journal:
    """One journal file. Thread-safe; every changing call is one transaction."""

    def __init__(self, path: Path, boot_id: str) -> None:
        """Open or make the file (`journalfile.py`). Raises NotReady when it can be neither read nor written.

        After a reboot (another boot id) no claim is prepared any more, because no container survived; partition rows
        stay and are compared with the hardware.
        """
        self._path = path
        self._lock = threading.Lock()
        self._db = open_file(path)
        try:
            self.rebooted = self._note_boot(boot_id)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def partitions(self) -> dict[str, PartitionRow]:
        """Return all partition rows by UID."""
        with self._reading() as db:
            return _partitions(db)

    def partition(self, uid: str) -> PartitionRow | None:
        """Return one partition row."""
        with self._reading() as db:
            row = db.execute("SELECT * FROM partitions WHERE uid=?", (uid,)).fetchone()
        return _partition(row) if row else None

    def partitions_of(self, card: str) -> tuple[PartitionRow, ...]:
        """Return the partition rows of one card, oldest first."""
        with self._reading() as db:
            rows = db.execute("SELECT * FROM partitions WHERE card=? ORDER BY rowid", (card,)).fetchall()
        return tuple(_partition(row) for row in rows)

    def put_partition(self, row: PartitionRow) -> None:
        """Write one step of a partition."""
        place = row.place.placement
        with self._transaction() as db:
            db.execute(
                "INSERT INTO partitions VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (uid) DO UPDATE SET"
                " step=excluded.step, instance=excluded.instance, uuid=excluded.uuid, start=excluded.start,"
                " size=excluded.size",
                (
                    row.uid,
                    row.name,
                    row.device,
                    row.place.card,
                    row.place.profile,
                    place.start,
                    place.size,
                    row.layout,
                    row.step,
                    json.dumps(dict(row.instance)),
                    row.uuid,
                ),
            )
            db.execute("DELETE FROM interrupted WHERE uid=?", (row.uid,))

    def drop_partition(self, uid: str) -> None:
        """Forget a partition: it is gone from the hardware, or was never begun."""
        with self._transaction() as db:
            db.execute("DELETE FROM partitions WHERE uid=?", (uid,))

    def claims(self) -> tuple[ClaimRow, ...]:
        """Return all claim rows, oldest first."""
        with self._reading() as db:
            return _claims(db)

    def claim(self, uid: str, driver: str) -> ClaimRow | None:
        """Return one claim row."""
        with self._reading() as db:
            row = db.execute("SELECT * FROM claims WHERE uid=? AND driver=?", (uid, driver)).fetchone()
        return _claim(row) if row else None

    def reserve(self, row: ClaimRow) -> None:
        """Write the first step of a claim, unless another claim still holds one of its devices.

        Check and write are one transaction, also against another agent process. Raises NotReady naming the holder.
        """
        with self._transaction() as db:
            for raw in db.execute("SELECT * FROM claims WHERE driver=? AND uid<>?", (row.driver, row.uid)):
                other = _claim(raw)
                for mine in row.devices:
                    for theirs in other.devices:
                        if mine.clashes(theirs):
                            raise NotReady(
                                f"device {mine.device} is held by ResourceClaim {other.key} (uid {other.uid}), which has"
                                f" {theirs.device} prepared; it is free after that claim is unprepared"
                            )
            _put_claim(db, row)

    def put_claim(self, row: ClaimRow) -> None:
        """Write a further step of a claim."""
        with self._transaction() as db:
            _put_claim(db, row)

    def drop_claim(self, uid: str, driver: str) -> None:
        """Forget a claim: its devices are free for the next one."""
        with self._transaction() as db:
            db.execute("DELETE FROM claims WHERE uid=? AND driver=?", (uid, driver))

    def if_unclaimed(self, uid: str, driver: str, act: Callable[[], None]) -> bool:
        """Act inside a transaction in which no claim row can appear; returns False, without acting, if there is one."""
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM claims WHERE uid=? AND driver=?", (uid, driver)).fetchone():
                return False
            act()
            return True

    @property
    def fresh(self) -> bool:
        """Whether nothing is remembered: a first start, or the file was lost or broken. Until `note_interrupted`."""
        with self._reading() as db:
            return db.execute("SELECT 1 FROM recovered").fetchone() is None

    def note_interrupted(self, uids: Iterable[str]) -> None:
        """Keep the UIDs of Partitions that were about to be cut when the journal was lost, each until it has a row."""
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO interrupted VALUES (?)", [(uid,) for uid in uids])
            db.execute("INSERT INTO recovered VALUES (1)")

    def interrupted(self) -> frozenset[str]:
        """Return what `note_interrupted` kept and has no row yet."""
        with self._reading() as db:
            return frozenset(row["uid"] for row in db.execute("SELECT uid FROM interrupted"))

    def _note_boot(self, boot_id: str) -> bool:
        with self._transaction() as db:
            known = db.execute("SELECT id FROM boot").fetchone()
            if known is not None and known["id"] == boot_id:
                return False
            db.execute("DELETE FROM boot")
            db.execute("INSERT INTO boot VALUES (?)", (boot_id,))
            db.execute("DELETE FROM claims")
            return known is not None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.OperationalError as error:
                raise NotReady(f"the journal {self._path} cannot be read: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                # IMMEDIATE takes the write lock at once, so that check and write see the same file.
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    # A full disk may have ended the transaction already.
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            except sqlite3.OperationalError as error:
                # A full disk, or a lock that another agent keeps: nothing was written, and nothing is broken.
                raise NotReady(f"the journal {self._path} cannot be written: {error}") from None


def read_journal(path: Path) -> tuple[dict[str, PartitionRow], tuple[ClaimRow, ...]]:
    """Read a journal that another process may be keeping, and change nothing; one that is not there is empty.

    Raises BrokenInput when it cannot be read.
    """
    if not path.exists():
        return {}, ()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as db:
            db.row_factory = sqlite3.Row
            return _partitions(db), _claims(db)
    except sqlite3.DatabaseError as error:
        raise BrokenInput(f"the journal {path} cannot be read: {error}") from None


def _partitions(db: sqlite3.Connection) -> dict[str, PartitionRow]:
    return {row["uid"]: _partition(row) for row in db.execute("SELECT * FROM partitions ORDER BY rowid")}


def _claims(db: sqlite3.Connection) -> tuple[ClaimRow, ...]:
    return tuple(_claim(row) for row in db.execute("SELECT * FROM claims ORDER BY rowid"))


def _put_claim(db: sqlite3.Connection, row: ClaimRow) -> None:
    devices = json.dumps([asdict(device) for device in row.devices])
    db.execute(
        "INSERT INTO claims VALUES (?,?,?,?,?,?) ON CONFLICT (uid, driver) DO UPDATE SET step=excluded.step,"
        " devices=excluded.devices",
        (row.uid, row.driver, row.namespace, row.name, row.step, devices),
    )


def _partition(row: sqlite3.Row) -> PartitionRow:
    return PartitionRow(
        uid=row["uid"],
        name=row["name"],
        device=row["device"],
        place=PartitionPlace(row["card"], row["profile"], Placement(row["start"], row["size"])),
        step=Step(row["step"]),
        layout=row["layout"],
        instance=json.loads(row["instance"]),
        uuid=row["uuid"],
    )


def _claim(row: sqlite3.Row) -> ClaimRow:
    devices: list[dict[str, Any]] = json.loads(row["devices"])
    return ClaimRow(
        uid=row["uid"],
        driver=row["driver"],
        namespace=row["namespace"],
        name=row["name"],
        step=ClaimStep(row["step"]),
        devices=tuple(ClaimDevice(**{**device, "requests": tuple(device["requests"])}) for device in devices),
    )
