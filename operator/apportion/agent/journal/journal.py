"""The journal: what this agent has begun and not finished, in SQLite, one transaction per step.

In: steps of partitions and of claims, before and after each irreversible act. Out: the same after a crash. Every write is
on the disk when the call returns (WAL, synchronous=FULL); two agents of a rolling update may share the file.

    partitions, by Partition UID:           Intent -> Created -> Ready -> Releasing -> gone
    claims, by claim UID and driver:        Preparing -> Injected -> Prepared -> Unpreparing -> gone
    what a claim has had set up:            by claim UID and driver, from before it is done until after it is undone
    interfaces of NICs, by claim and device: Waiting -> Moving -> Moved -> Returning -> Waiting or gone
    names of cards, by UUID:                for good
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from apportion.agent.journal import boot, cards, networks, rows, sharing
from apportion.agent.journal.ballast import Ballast
from apportion.agent.journal.file import UNREADABLE, is_broken, is_full, open_file
from apportion.agent.journal.known import Known
from apportion.agent.journal.transaction import transaction
from apportion.agent.rows import ClaimRow, ClaimStep, NetworkRow, NetworkStep, PartitionRow, SharingRow
from apportion.errors import NotReady

T = TypeVar("T")
_TABLES = (rows.partitions, rows.claims, sharing.every, networks.rows)


class Journal:
    """One journal file. Thread-safe; every changing call is one transaction."""

    def __init__(self, path: Path, boot_id: str, *, patience: float = 10.0) -> None:
        """Open or make the file (`file.py`), on a full disk in the room of the ballast. Raises NotReady when it can be neither read nor written.

        `patience`: seconds for which each access waits for another process that has locked the file. After a reboot (another boot id)
        no claim is prepared any more (`boot.py`).
        """
        self._path = path
        self._lock = threading.Lock()
        self.broken = ""
        """Why the file is broken, "" as long as that was not seen: then every call raises, and the process has to end."""
        self._ballast = Ballast(path.with_suffix(".ballast"))
        # An agent that does not start on a full disk unprepares nothing, after which kubelet frees what a pod has written.
        self._db = open_file(path, _TABLES, patience, more_room=self._ballast.give_up)
        try:
            self.rebooted = self._write(partial(boot.note, boot_id=boot_id), frees=True)
            self._known = Known(path, patience)
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise self._refusal(error, "read") from None
            raise

    def close(self) -> None:
        """Close the file."""
        self._known.close()
        with self._lock:
            self._db.close()

    def partitions(self) -> dict[str, PartitionRow]:
        """Return all partition rows by UID."""
        return dict(self._read(rows.partitions))

    def partition(self, uid: str) -> PartitionRow | None:
        """Return one partition row."""
        with self._reading() as db:
            row = db.execute("SELECT * FROM partitions WHERE uid=?", (uid,)).fetchone()
            return rows.partition(row, cards.of_owner(db, uid)) if row else None

    def partitions_of(self, card: str) -> tuple[PartitionRow, ...]:
        """Return the partition rows of one card, oldest first."""
        with self._reading() as db:
            found = db.execute("SELECT * FROM partitions WHERE card=? ORDER BY rowid", (card,)).fetchall()
            return tuple(rows.partition(row, cards.of_owner(db, row["uid"])) for row in found)

    def put_partition(self, row: PartitionRow) -> None:
        """Write one step of a partition."""
        with self._transaction() as db:
            rows.put_partition(db, row)
            db.execute("DELETE FROM interrupted WHERE uid=?", (row.uid,))

    def drop_partition(self, uid: str) -> None:
        """Forget a partition: it is gone from the hardware, or was never begun."""
        with self._transaction() as db:
            rows.drop_partition(db, uid)

    def hand_over(self, former: str, row: PartitionRow) -> None:
        """Write a partition for another Partition than its `former` one (UID), with what claims have prepared of it."""
        with self._transaction() as db:
            rows.hand_over(db, former, row)
            db.execute("DELETE FROM interrupted WHERE uid=?", (row.uid,))

    def claims(self) -> tuple[ClaimRow, ...]:
        """Return all claim rows, oldest first."""
        return self._read(rows.claims)

    def claim(self, uid: str, driver: str) -> ClaimRow | None:
        """Return one claim row."""
        with self._reading() as db:
            return rows.claim(db, uid, driver)

    def reserve(
        self, row: ClaimRow, check: Callable[[Sequence[ClaimRow]], None] = lambda _others: None
    ) -> None:
        """Write the first step of a claim, unless another claim still holds one of its devices.

        `check` gets the rows of other claims and drivers, and raises if the claim may not be beside them. Check and write are one
        transaction, also against another agent process. Raises NotReady naming the holder.
        """
        with self._transaction() as db:
            # Of all drivers: a card keeps its name under another one's.
            others = [each for each in rows.claims(db) if (each.driver, each.uid) != (row.driver, row.uid)]
            for other in others:
                for mine in row.devices:
                    for theirs in other.devices:
                        if mine.clashes(theirs):
                            raise other.holds(theirs.device, mine.device)
            check(others)
            cards.drop(db, rows.owner(row.driver, row.uid))
            rows.put_claim(db, row)

    def put_claim(self, row: ClaimRow) -> None:
        """Write a further step of a claim; its last one also on a full disk, as all that an unprepare writes."""
        self._write(lambda db: rows.put_claim(db, row), frees=row.step is ClaimStep.UNPREPARING)

    def advance_claim(self, row: ClaimRow) -> None:
        """Write a further step of a claim that has a row. Raises NotReady where another agent has dropped it, whatever it has prepared since: the devices may be another claim's."""
        with self._transaction() as db:
            known = rows.claim(db, row.uid, row.driver)
            if known is None or known.uses != row.uses:
                raise NotReady(f"ResourceClaim {row.key} was unprepared while it was being prepared")
            rows.put_claim(db, row)

    def correct_claim(self, known: ClaimRow, row: ClaimRow) -> None:
        """Write a claim's row in place of the `known` one; one that has changed meanwhile, or is gone, stays so."""
        with self._transaction() as db:
            if rows.claim(db, row.uid, row.driver) == known:
                rows.put_claim(db, row)

    def drop_claim(self, uid: str, driver: str) -> None:
        """Forget a claim: its devices are free for the next one."""
        self._write(lambda db: rows.drop_claim(db, uid, driver), frees=True)

    def sharing(self) -> tuple[SharingRow, ...]:
        """Return what claims have had set up, oldest first."""
        return self._read(sharing.every)

    def sharing_of(self, uid: str, driver: str) -> SharingRow | None:
        """Return what one claim has had set up."""
        with self._reading() as db:
            return sharing.one(db, uid, driver)

    def put_sharing(self, row: SharingRow, *, frees: bool = False) -> None:
        """Write what a claim is about to have set up, has, or has left as it ends (`frees`); raises NotReady when another claim has a device set up otherwise."""
        self._write(lambda db: sharing.put(db, row), frees=frees)

    def drop_sharing(self, uid: str, driver: str) -> None:
        """Forget what a claim had set up."""
        self._write(lambda db: sharing.drop(db, uid, driver), frees=True)

    def networks(self) -> tuple[NetworkRow, ...]:
        """Return the rows of all interfaces, oldest first."""
        return self._read(networks.rows)

    def put_network(self, row: NetworkRow) -> None:
        """Write one step of an interface."""
        self._write(lambda db: networks.put(db, row), frees=row.step is NetworkStep.RETURNING)

    def drop_network(self, row: NetworkRow) -> None:
        """Forget an interface: it is on the host, as it was."""
        self._write(lambda db: networks.drop(db, row), frees=True)

    def name(self, stem: str, uuid: str, number: int) -> str:
        """Return the name of a card, which it keeps for good (`CardNames`)."""
        for name, owner in self.known().items():
            if owner == uuid:
                return name
        with self._transaction() as db:
            return cards.name(db, stem, uuid, number)

    def known(self) -> Mapping[str, str]:
        """Return the UUIDs of all cards that have a name (`CardNames`)."""
        return self._read(cards.names)

    def profiles(self, uuid: str) -> Mapping[int, str]:
        """Return the names of profiles of which partitions exist on a card (`CardNames`); of two names the older one."""
        return rows.profiles(self.partitions().values(), uuid)

    def forget_card(self, name: str, there: Mapping[str, str]) -> cards.Forgotten:
        """Forget the card that had this name, with its partitions and parts; `there` are the UUIDs by name of those that are there.

        Raises BrokenInput when no such card is known, NotReady while a claim has a device of it prepared.
        """
        with self._transaction() as db:
            return cards.forget(db, name, there)

    def learn_names(self, uuids: Mapping[str, str]) -> None:
        """Take the names of cards from elsewhere, UUIDs by name; what is known already stays."""
        with self._transaction() as db:
            cards.learn(db, uuids)

    def note_cards(self, uuids: Mapping[str, str], former: Mapping[str, str]) -> None:
        """Note the UUIDs of cards, by name as seen now, in rows that lack them (an older release wrote them) or have the `former` ones."""
        lacking = [(row.uid, row.place.card) for row in self.partitions().values() if not row.card_uuid] + [
            (rows.owner(claim.driver, claim.uid), device.card)
            for claim in self.claims()
            for device in claim.devices
            if device.card_uuid in {"", former.get(device.card, "")}
        ]
        for owner, card in lacking:
            if card in uuids:
                with self._transaction() as db:
                    cards.correct(db, owner, card, uuids[card])

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

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` finds of a whole table, which nobody may change; one row is read as fast from the file."""
        with self._reading() as db:
            return self._known.get(db, read)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._known.reading() as db:
                yield db
        except sqlite3.DatabaseError as error:
            raise self._refusal(error, "read") from None
        except UNREADABLE as error:
            raise self._broke(f"a row cannot be read: {error!r}") from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing(), transaction(self._db) as db:
            yield db

    def _write(self, act: Callable[[sqlite3.Connection], T], *, frees: bool) -> T:
        """Write in one transaction; what only gives back what a claim has had (`frees`), on a full disk in the room of the ballast."""
        with self._writing():
            while True:
                try:
                    with transaction(self._db) as db:
                        return act(db)
                except sqlite3.OperationalError as error:
                    if not (frees and is_full(error) and self._ballast.give_up()):
                        raise
                # The log begins anew once all of it is in the file: the next ones need no further room.
                with suppress(sqlite3.OperationalError):
                    self._db.execute("PRAGMA wal_checkpoint")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Have the file alone. For threads: it waits for the other writers, and for the disk."""
        with self._lock:
            try:
                yield
                self._ballast.keep()
            except sqlite3.DatabaseError as error:
                raise self._refusal(error, "written") from None

    def _refusal(self, error: sqlite3.DatabaseError, verb: str) -> Exception:
        if is_broken(error):
            return self._broke(str(error))
        if not isinstance(error, sqlite3.OperationalError):
            return error
        # A full disk, or a lock that another agent keeps: nothing was written, and nothing is broken.
        return NotReady(f"the journal {self._path} cannot be {verb}: {error}")

    def _broke(self, why: str) -> NotReady:
        ends = "the agent ends, and the next one sets it aside"
        self.broken = f"the journal {self._path} is broken: {why}; {ends}"
        return NotReady(self.broken)
