"""The cards in the journal: which name belongs to which card, and on which card the devices of a row lie.

In: a connection inside a transaction. Out: names and UUIDs. The owner of a row is a Partition's UID, or driver and UID of a claim.
Tables of their own, because the agent of the last release writes the others with the columns that it knows.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from apportion.agent.devices.names import free_name
from apportion.errors import BrokenInput, NotReady


def names(db: sqlite3.Connection) -> dict[str, str]:
    """Return the UUIDs of cards by their names."""
    return {row["name"]: row["uuid"] for row in db.execute("SELECT * FROM cards")}


def name(db: sqlite3.Connection, stem: str, uuid: str, number: int) -> str:
    """Return the name of a card; a new one gets the stem with this number, or with one that is free."""
    known = names(db)
    for given, owner in known.items():
        if owner == uuid:
            return given
    fresh = free_name(stem, number, known)
    learn(db, {fresh: uuid})
    return fresh


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What is known no more of a card that left."""

    uuid: str
    """"" when that was never known."""
    partitions: tuple[str, ...]
    """Names of its Partition objects."""
    parts: tuple[str, ...]
    """Names of its parts."""


def forget(db: sqlite3.Connection, card: str, there: Mapping[str, str]) -> Forgotten:
    """Remove a card's name, its partitions, and the names of its parts (`fpga-1-region-0` of `fpga-1`).

    What is `there` (UUIDs by name) keeps its name. Raises BrokenInput when no other card is known by this name, NotReady while a
    claim has a device of it prepared.
    """
    own, present = there.get(card, ""), set(there.values())
    parts = {
        name: uuid for name, uuid in names(db).items() if name.startswith(f"{card}-") and uuid not in present
    }
    owners = {
        row["owner"]: row["uuid"]
        for row in db.execute("SELECT * FROM row_cards")
        if (row["card"] == card and row["uuid"] != own) or row["card"] in parts
    }
    known = names(db).get(card, own)
    if known == own and not owners:
        raise BrokenInput(f"no card of this name has left: {f'{card} is {own}' if own else 'none is known'}")
    for row in db.execute("SELECT * FROM claims"):
        if f"{row['driver']}/{row['uid']}" in owners:
            raise NotReady(
                f"ResourceClaim {row['namespace']}/{row['name']} (uid {row['uid']}) has a device of {card} prepared;"
                " it is unprepared first"
            )
    gone = [
        row
        for row in db.execute("SELECT uid, name FROM partitions WHERE card=?", (card,))
        if row["uid"] in owners
    ]
    for row in gone:
        db.execute("DELETE FROM partitions WHERE uid=?", (row["uid"],))
        drop(db, row["uid"])
    db.execute("DELETE FROM cards WHERE name=? AND uuid<>?", (card, own))
    db.executemany("DELETE FROM cards WHERE name=?", [(name,) for name in parts])
    uuid = next((uuid for uuid in (known, *owners.values()) if uuid != own), "")
    return Forgotten(uuid, tuple(row["name"] for row in gone), tuple(sorted(parts)))


def learn(db: sqlite3.Connection, uuids: Mapping[str, str]) -> None:
    """Take names from elsewhere, unless the name or the card is known already."""
    db.executemany("INSERT OR IGNORE INTO cards VALUES (?,?)", uuids.items())


def put(db: sqlite3.Connection, owner: str, uuids: Mapping[str, str]) -> None:
    """Note on which cards, by their names, the devices of a row lie; what is known stays, "" is unknown."""
    rows = [(owner, card, uuid) for card, uuid in uuids.items() if uuid]
    db.executemany("INSERT OR IGNORE INTO row_cards VALUES (?,?,?)", rows)


def correct(db: sqlite3.Connection, owner: str, card: str, uuid: str) -> None:
    """Note the UUID of a card of a row, whatever is known."""
    db.execute("INSERT OR REPLACE INTO row_cards VALUES (?,?,?)", (owner, card, uuid))


def drop(db: sqlite3.Connection, owner: str) -> None:
    """Forget a row's cards."""
    db.execute("DELETE FROM row_cards WHERE owner=?", (owner,))


def of_all(db: sqlite3.Connection) -> Mapping[str, Mapping[str, str]]:
    """Return the UUIDs by owner and name of the card."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in db.execute("SELECT * FROM row_cards"):
        found[row["owner"]][row["card"]] = row["uuid"]
    return found


def of_owner(db: sqlite3.Connection, owner: str) -> Mapping[str, str]:
    """Return the UUIDs of one owner by name of the card."""
    rows = db.execute("SELECT * FROM row_cards WHERE owner=?", (owner,))
    return {row["card"]: row["uuid"] for row in rows}
