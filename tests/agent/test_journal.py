"""The journal keeps what was written, and lets nobody have what somebody else holds."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.journal import Journal
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, Share, Step
from apportion.errors import NotReady
from tests.agent.journalrow import ROW


def claim(uid: str, *devices: str, admin: bool = False) -> ClaimRow:
    """Return a claim row on devices of gpu-0."""
    return ClaimRow(
        uid,
        "gpu.apportion.dev",
        "team",
        f"claim-{uid}",
        ClaimStep.PREPARING,
        tuple(ClaimDevice(name, "gpu-0", "node-a", ("r",), f"x={name}", admin=admin) for name in devices),
    )


def test_every_step_is_read_back_by_the_next_process(tmp_path: Path) -> None:
    """The last step counts; a dropped row is gone."""
    path = tmp_path / "journal.db"
    first = Journal(path, "boot-1")
    ready = replace(ROW, step=Step.READY, instance={"gpuInstance": "7"}, uuid="MIG-1")
    first.put_partition(ROW)
    first.put_partition(ready)
    first.put_partition(replace(ROW, uid="p2"))
    first.drop_partition("p2")
    first.reserve(claim("c1", "gpu-0"))
    first.put_claim(replace(claim("c1", "gpu-0"), step=ClaimStep.PREPARED))
    first.close()
    reopened = Journal(path, "boot-1")
    assert reopened.partitions() == {"p1": ready}
    assert reopened.claims() == (replace(claim("c1", "gpu-0"), step=ClaimStep.PREPARED),)
    assert not reopened.rebooted
    reopened.close()


def test_a_write_that_returned_survives_a_kill(tmp_path: Path) -> None:
    """The process dies right after the call; nothing was flushed by hand."""
    path = tmp_path / "journal.db"
    code = (
        "import os, signal, sys; from pathlib import Path; from tests.agent.journalrow import ROW;"
        "from apportion.agent.journal import Journal;"
        f"Journal(Path({str(path)!r}), 'b').put_partition(ROW); os.kill(os.getpid(), signal.SIGKILL)"
    )
    _die(code)
    journal = Journal(path, "b")
    assert journal.partitions() == {"p1": ROW}
    journal.close()


def test_after_a_reboot_nothing_is_prepared_and_partitions_are_still_known(tmp_path: Path) -> None:
    """No container survived; what became of the partitions only the hardware knows."""
    path = tmp_path / "journal.db"
    journal = Journal(path, "boot-1")
    journal.put_partition(ROW)
    journal.reserve(claim("c1", "gpu-0"))
    journal.close()
    journal = Journal(path, "boot-2")
    assert journal.rebooted
    assert journal.claims() == ()
    assert journal.partitions() == {"p1": ROW}
    journal.close()


@pytest.mark.parametrize(
    ("held", "wanted"),
    [("gpu-0", "gpu-0"), ("gpu-0", "gpu-0-mig-x"), ("gpu-0-mig-x", "gpu-0"), ("gpu-0-mig-x", "gpu-0-mig-x")],
)
def test_what_one_claim_holds_another_does_not_get(tmp_path: Path, held: str, wanted: str) -> None:
    """The refusal names the holder; after it let go, the other one may."""
    journal = Journal(tmp_path / "journal.db", "b")
    journal.reserve(claim("one", held))
    with pytest.raises(NotReady, match=r"held by ResourceClaim team/claim-one \(uid one\)"):
        journal.reserve(claim("two", "gpu-0-mig-free", wanted))
    assert [row.uid for row in journal.claims()] == ["one"]
    journal.drop_claim("one", "gpu.apportion.dev")
    journal.reserve(claim("two", wanted))
    journal.close()


def test_neighbours_and_administrators_do_not_exclude_each_other(tmp_path: Path) -> None:
    """Claims for two partitions of one card and a claim with admin access are all reserved."""
    journal = Journal(tmp_path / "journal.db", "b")
    journal.reserve(claim("one", "gpu-0-mig-x"))
    journal.reserve(claim("two", "gpu-0-mig-y"))
    journal.reserve(claim("admin", "gpu-0", admin=True))
    assert len(journal.claims()) == 3
    journal.close()


def test_two_agents_of_a_rolling_update_exclude_each_other(tmp_path: Path) -> None:
    """The check and the write are one transaction, across processes."""
    old, new = (Journal(tmp_path / "journal.db", "b") for _ in range(2))
    old.reserve(claim("one", "gpu-0"))
    with pytest.raises(NotReady):
        new.reserve(claim("two", "gpu-0"))
    old.close()
    new.close()


def test_a_broken_file_is_set_aside(tmp_path: Path) -> None:
    """The agent starts; the hardware and the API hold the rest."""
    path = tmp_path / "journal.db"
    path.write_bytes(b"no database " * 1000)
    journal = Journal(path, "b")
    journal.put_partition(ROW)
    assert path.with_suffix(".broken").read_bytes().startswith(b"no database")
    journal.close()


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


def _die(code: str) -> None:
    """Run code that kills its process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL


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
    _die(code)
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
        journal.note_cards({"gpu-1": "GPU-of-another"})
        journal.note_cards({"gpu-0": "GPU-seen-first"})
        journal.note_cards({"gpu-0": "GPU-of-later"})
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


def shares(uid: str, *parts: Share) -> ClaimRow:
    """Return a claim row with shares of gpu-0."""
    row = claim(uid, *("gpu-0" for _ in parts))
    return replace(
        row, devices=tuple(replace(one, share=part) for one, part in zip(row.devices, parts, strict=True))
    )


def test_claims_that_share_a_device_are_read_back_with_their_parts(tmp_path: Path) -> None:
    """Two parts of one device in one claim too; who is gone leaves nothing."""
    path = tmp_path / "journal.db"
    first, second = shares("c1", Share("a", 10), Share("b", 20)), shares("c2", Share("c", 30))
    with closing(Journal(path, "b")) as journal:
        journal.reserve(first)
        journal.reserve(second)
        journal.put_claim(replace(first, step=ClaimStep.PREPARED))
    with closing(Journal(path, "b")) as journal:
        assert journal.claims() == (replace(first, step=ClaimStep.PREPARED), second)
        assert journal.claim("c2", second.driver) == second
        journal.drop_claim("c1", first.driver)
        # Of a claim that had shares another one of that UID, on the device as a whole, has none.
        journal.drop_claim("c2", second.driver)
        journal.reserve(claim("c1", "gpu-0"))
        assert journal.claims() == (claim("c1", "gpu-0"),)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM shares").fetchone() == (0,)


def test_a_claim_that_a_check_refuses_leaves_no_row_and_is_asked_about_with_the_others(
    tmp_path: Path,
) -> None:
    """The check sees the other claims of its driver, and nothing of it is written."""
    seen: list[str] = []

    def refuse(others: Sequence[ClaimRow]) -> None:
        seen.extend(row.uid for row in others)
        raise NotReady("no room")

    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        journal.reserve(claim("one", "gpu-0-mig-x"))
        with pytest.raises(NotReady, match="no room"):
            journal.reserve(claim("two", "gpu-0-mig-y"), refuse)
        assert seen == ["one"]
        assert [row.uid for row in journal.claims()] == ["one"]


def test_two_agents_give_a_card_one_name(tmp_path: Path) -> None:
    """In a rolling update both may see a new card first."""
    old, new = (Journal(tmp_path / "journal.db", "b") for _ in range(2))
    assert old.name("gpu", "GPU-a", 0) == "gpu-0"
    assert new.name("gpu", "GPU-b", 0) == "gpu-1"
    assert old.name("gpu", "GPU-b", 1) == "gpu-1"
    assert new.name("gpu", "GPU-a", 5) == "gpu-0"
    assert new.known() == {"gpu-0": "GPU-a", "gpu-1": "GPU-b"}
    old.close()
    new.close()
