"""Rows of the journal as SQL: partitions and claims, written and read with the cards on which they lie.

In: a connection, inside a transaction for writes; values of `agent.rows`. Out: the same values.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from apportion.agent.devices.names import profile_place
from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.journal import cards, shares
from apportion.agent.laterfields import without_later
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, PartitionRow, Share, Step


def partitions(db: sqlite3.Connection) -> dict[str, PartitionRow]:
    """Return all partition rows by UID, oldest first."""
    uuids = cards.of_all(db)
    found = db.execute("SELECT * FROM partitions ORDER BY rowid")
    return {row["uid"]: partition(row, uuids.get(row["uid"], {})) for row in found}


def claims(db: sqlite3.Connection) -> tuple[ClaimRow, ...]:
    """Return all claim rows, oldest first."""
    uuids, parts = cards.of_all(db), shares.of_all(db)
    found = db.execute("SELECT * FROM claims ORDER BY rowid")
    return tuple(
        _claim(row, uuids.get(whose, {}), parts.get(whose, {}))
        for row in found
        for whose in (owner(row["driver"], row["uid"]),)
    )


def claim(db: sqlite3.Connection, uid: str, driver: str) -> ClaimRow | None:
    """Return one claim row."""
    row = db.execute("SELECT * FROM claims WHERE uid=? AND driver=?", (uid, driver)).fetchone()
    whose = owner(driver, uid)
    return _claim(row, cards.of_owner(db, whose), shares.of_owner(db, whose)) if row else None


def drop_claim(db: sqlite3.Connection, uid: str, driver: str) -> None:
    """Forget a claim, with what is noted of its cards and shares."""
    db.execute("DELETE FROM claims WHERE uid=? AND driver=?", (uid, driver))
    cards.drop(db, owner(driver, uid))
    shares.drop(db, owner(driver, uid))


def profiles(rows: Iterable[PartitionRow], uuid: str) -> Mapping[int, str]:
    """Return the names of profiles by number, of partitions on the card with this UUID; of two names the first one."""
    found: dict[int, str] = {}
    for row in rows:
        place = profile_place(row.device)
        if place is not None and row.card_uuid == uuid:
            found.setdefault(place[0], row.place.profile)
    return found


def owner(driver: str, uid: str) -> str:
    """Return the owner of a claim's cards."""
    return f"{driver}/{uid}"


def put_partition(db: sqlite3.Connection, row: PartitionRow) -> None:
    """Write one step of a partition."""
    place = row.place.placement
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
    cards.put(db, row.uid, {row.place.card: row.card_uuid})


def drop_partition(db: sqlite3.Connection, uid: str) -> None:
    """Forget a partition, with what is noted of its card."""
    db.execute("DELETE FROM partitions WHERE uid=?", (uid,))
    cards.drop(db, uid)


def hand_over(db: sqlite3.Connection, former: str, row: PartitionRow) -> None:
    """Write a partition in place of that of another UID, also in what claims have prepared."""
    drop_partition(db, former)
    put_partition(db, row)
    for each in claims(db):
        devices = tuple(
            replace(device, partition=row.uid) if device.partition == former else device
            for device in each.devices
        )
        if devices != each.devices:
            put_claim(db, replace(each, devices=devices))


def put_claim(db: sqlite3.Connection, row: ClaimRow) -> None:
    """Write one step of a claim."""
    # The agent of the last release knows neither UUIDs nor shares in here.
    own = ("card_uuid", "share")
    known = [
        {key: value for key, value in asdict(device).items() if key not in own} for device in row.devices
    ]
    devices = json.dumps(known)
    uuids = {device.card: device.card_uuid for device in row.devices}
    db.execute(
        "INSERT INTO claims VALUES (?,?,?,?,?,?) ON CONFLICT (uid, driver) DO UPDATE SET step=excluded.step,"
        " devices=excluded.devices",
        (row.uid, row.driver, row.namespace, row.name, row.step, devices),
    )
    cards.put(db, owner(row.driver, row.uid), uuids)
    shares.put(db, owner(row.driver, row.uid), row.devices)


def partition(row: sqlite3.Row, uuids: Mapping[str, str]) -> PartitionRow:
    """Read a partition; `uuids` are those of cards by name."""
    return PartitionRow(
        uid=row["uid"],
        name=row["name"],
        device=row["device"],
        place=PartitionPlace(row["card"], row["profile"], Placement(row["start"], row["size"])),
        step=Step(row["step"]),
        layout=row["layout"],
        instance=json.loads(row["instance"]),
        uuid=row["uuid"],
        card_uuid=uuids.get(row["card"], ""),
    )


def _claim(row: sqlite3.Row, uuids: Mapping[str, str], parts: Mapping[int, Share]) -> ClaimRow:
    """Read a claim; `uuids` are those of cards by name, `parts` its shares by position."""
    devices: list[dict[str, Any]] = json.loads(row["devices"])
    return ClaimRow(
        uid=row["uid"],
        driver=row["driver"],
        namespace=row["namespace"],
        name=row["name"],
        step=ClaimStep(row["step"]),
        devices=tuple(
            ClaimDevice(
                **{
                    **without_later(ClaimDevice, device),
                    "requests": tuple(device["requests"]),
                    "card_uuid": uuids.get(device["card"], ""),
                    "share": parts.get(position),
                }
            )
            for position, device in enumerate(devices)
        ),
    )
