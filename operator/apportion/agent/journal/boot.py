"""The boot in the journal: which boot of the node its rows are of.

In: a connection inside of a transaction, a boot id. Out: rows of before a reboot are gone, as far as it took what they say.
"""

import sqlite3

from apportion.agent.journal import rows, sharing


def note(db: sqlite3.Connection, boot_id: str) -> bool:
    """Note the node's boot, and forget what a reboot has taken; returns whether there was one.

    No container survives it, so that no claim is prepared any more; partition rows stay and are compared with the hardware.
    """
    known = db.execute("SELECT id FROM boot").fetchone()
    if known is not None and known["id"] == boot_id:
        return False
    db.execute("DELETE FROM boot")
    db.execute("INSERT INTO boot VALUES (?)", (boot_id,))
    for claim in rows.claims(db):
        rows.drop_claim(db, claim.uid, claim.driver)
    sharing.forget_all(db)
    # The host has set up its interfaces anew.
    db.execute("DELETE FROM networks")
    return known is not None
