"""A journal goes from one release of the agent to another, and back."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.journal import Journal
from apportion.agent.rows import Share, SharedDevice, SharingRow, Step
from tests.agent.journal.journalrow import ROW, claim, die

_FIRST_RELEASE = """
CREATE TABLE boot (id TEXT NOT NULL);
CREATE TABLE partitions (uid TEXT PRIMARY KEY, name TEXT NOT NULL, device TEXT NOT NULL, card TEXT NOT NULL,
    profile TEXT NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL, layout TEXT NOT NULL, step TEXT NOT NULL,
    instance TEXT NOT NULL, uuid TEXT NOT NULL) STRICT;
CREATE TABLE claims (uid TEXT NOT NULL, driver TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, step TEXT NOT NULL,
    devices TEXT NOT NULL, PRIMARY KEY (uid, driver)) STRICT;
INSERT INTO boot VALUES ('b');
INSERT INTO partitions VALUES ('p1', 'node-a-x', 'x', 'gpu-0', '1g.10gb', 3, 1, '', 'Intent', '{}', '');
INSERT INTO claims VALUES ('c1', 'gpu.apportion.dev', 'team', 'claim-c1', 'Preparing',
    '[{"device": "gpu-0", "card": "gpu-0", "pool": "node-a", "requests": ["r"], "cdi": "x=gpu-0"}]');
PRAGMA user_version=1;
"""


def _of_the_first_release(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_FIRST_RELEASE)


def test_a_journal_of_the_first_release_is_brought_up_with_all_that_it_remembers(tmp_path: Path) -> None:
    """An upgrade of the agent disturbs no pod; the former agent goes on with the file until it ends."""
    path = tmp_path / "journal.db"
    _of_the_first_release(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as former:
        journal = Journal(path, "b")
        assert not journal.fresh
        assert journal.partitions() == {"p1": ROW}
        assert journal.claims() == (claim("c1", "gpu-0"),)
        former.execute("UPDATE partitions SET step='Created'")
        assert journal.partitions() == {"p1": replace(ROW, step=Step.CREATED)}
        journal.close()
    assert not path.with_suffix(".broken").exists()


@pytest.mark.slow
@pytest.mark.parametrize("statement", range(2))
def test_a_kill_while_a_journal_is_brought_up_costs_nothing(tmp_path: Path, statement: int) -> None:
    """The next start finds the file before the step or after it."""
    path = tmp_path / "journal.db"
    _of_the_first_release(path)
    code = (
        "import os, signal, sqlite3, sys; from pathlib import Path; from apportion.agent.journal import Journal\n"
        "def die(text):\n"
        f"    left[0] -= text.startswith(('CREATE INDEX', 'PRAGMA user_version='))\n"
        "    left[0] < 0 and os.kill(os.getpid(), signal.SIGKILL)\n"
        f"left = [{statement}]; connect = sqlite3.connect\n"
        "def watched(*args, **options):\n"
        "    db = connect(*args, **options); db.set_trace_callback(die); return db\n"
        f"sqlite3.connect = watched; Journal(Path({str(path)!r}), 'b')"
    )
    die(code)
    journal = Journal(path, "b")
    assert journal.partitions() == {"p1": ROW}
    assert journal.claims() == (claim("c1", "gpu-0"),)
    journal.close()


def test_a_journal_of_a_later_release_is_read_and_written(tmp_path: Path) -> None:
    """Its steps left the statements of this one valid: after a downgrade nothing is forgotten, and what is new is left alone."""
    path = tmp_path / "journal.db"
    with closing(Journal(path, "b")) as journal:
        journal.put_partition(replace(ROW, card_uuid="GPU-1"))
    with closing(sqlite3.connect(path)) as later:
        # It may be open in an agent of the later release, as in a rolling update.
        later.executescript("CREATE TABLE further (uid TEXT); PRAGMA user_version=99;")
        with closing(Journal(path, "b")) as journal:
            assert journal.partitions() == {"p1": replace(ROW, card_uuid="GPU-1")}
            journal.reserve(claim("c1", "gpu-0"))
        later.execute("INSERT INTO further VALUES ('c1')")
        assert later.execute("SELECT uid FROM claims").fetchall() == [("c1",)]
        assert later.execute("PRAGMA user_version").fetchone() == (99,)
    assert not path.with_suffix(".broken").exists()


def test_fields_of_a_later_release_in_the_text_of_a_row_are_left_out(tmp_path: Path) -> None:
    """The file was set aside for one such field, and all that it remembered with it."""
    path, shared = tmp_path / "journal.db", SharedDevice("gpu-0", "GPU-1", "GPU-1", mps=True)
    with closing(Journal(path, "b")) as journal:
        journal.reserve(claim("c1", "gpu-0"))
        journal.put_sharing(SharingRow("c1", "d", (shared,)))
    with closing(sqlite3.connect(path, isolation_level=None)) as later:
        for table, column, places in (
            ("claims", "devices", ("$[0].later",)),
            ("sharing", "setup", ("$.later", "$.devices[0].later")),
        ):
            for place in places:
                later.execute(f"UPDATE {table} SET {column}=json_insert({column}, ?, 1)", (place,))  # noqa: S608 - names of ours
    with closing(Journal(path, "b")) as journal:
        assert journal.claims() == (claim("c1", "gpu-0"),)
        assert journal.sharing() == (SharingRow("c1", "d", (shared,)),)
    assert not path.with_suffix(".broken").exists()


@pytest.mark.parametrize(("steps", "aside"), [(1, False), (98, True)])
def test_a_journal_says_which_steps_an_agent_must_know(tmp_path: Path, steps: int, aside: bool) -> None:  # noqa: FBT001
    """A later release that cannot live with this one's statements says so: the file is set aside, nothing of it is lost."""
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_FIRST_RELEASE + "CREATE TABLE needed (steps INTEGER);")
        with db:
            db.execute("INSERT INTO needed VALUES (?)", (steps,))
    with closing(Journal(path, "b")) as journal:
        assert journal.fresh == aside
        assert bool(journal.partitions()) != aside
    assert path.with_suffix(".broken").exists() == aside
    if aside:
        with closing(sqlite3.connect(path.with_suffix(".broken"))) as db:
            assert db.execute("SELECT uid FROM partitions").fetchall() == [("p1",)]


def test_rows_of_an_older_release_learn_their_card_when_it_is_seen(tmp_path: Path) -> None:
    """From then on a card that comes in its place is known for another one; what is known is never written over."""
    path = tmp_path / "journal.db"
    _of_the_first_release(path)
    with closing(Journal(path, "b")) as journal:
        assert journal.partitions()["p1"].card_uuid == ""
        journal.note_cards({"gpu-1": "GPU-of-another"}, {})
        journal.note_cards({"gpu-0": "GPU-seen-first"}, {})
        journal.note_cards({"gpu-0": "GPU-of-later"}, {})
        journal.note_cards({"gpu-0": "GPU-of-later"}, {"gpu-0": "GPU-of-another"})
    with closing(Journal(path, "b")) as journal:
        assert journal.partitions()["p1"].card_uuid == "GPU-seen-first"
        assert [device.card_uuid for row in journal.claims() for device in row.devices] == ["GPU-seen-first"]


def test_the_agent_of_the_last_release_reads_what_this_one_writes(tmp_path: Path) -> None:
    """Both have the file open in a rolling update, and that one knows neither new columns nor new fields."""
    path = tmp_path / "journal.db"
    with closing(Journal(path, "b")) as journal:
        journal.put_partition(replace(ROW, card_uuid="GPU-1"))
        row = claim("c1", "gpu-0")
        known = {"card_uuid": "GPU-1", "share": Share("a", 1)}
        journal.reserve(replace(row, devices=tuple(replace(one, **known) for one in row.devices)))
    with closing(sqlite3.connect(path)) as db:
        assert len(db.execute("SELECT * FROM partitions").fetchone()) == 11
        (raw,) = db.execute("SELECT devices FROM claims").fetchone()
        assert set(json.loads(raw)[0]) == {"device", "card", "pool", "requests", "cdi", "partition", "admin"}
