"""A journal that becomes broken while an agent has it open: the agent ends with the reason, and the next one goes on without it."""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from apportion.agent.journal import Journal, read_journal
from apportion.errors import BrokenInput, NotReady
from testbed.eventually import eventually
from tests.agent.journal.journalrow import ROW
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode

_PAGE = 4096


def damage(path: Path) -> None:
    """Overwrite every page but the first one, as a failing disk does, where other processes see it."""
    with closing(sqlite3.connect(path)) as db:
        with db:
            db.execute("INSERT INTO interrupted VALUES ('other')")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(_PAGE)
        file.write(b"\xff" * (size - _PAGE))


def change(path: Path, statement: str) -> None:
    """Write something that no agent writes."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE partitions SET instance='{'",
        "UPDATE partitions SET step='Nowhere'",
        "UPDATE partitions SET device=CAST(x'fffe' AS TEXT)",
        "INSERT INTO claims VALUES ('c', 'd', 'n', 'n', 'Prepared', '[{}]')",
        "INSERT INTO sharing VALUES ('c', 'd', '{}')",
        "INSERT INTO networks VALUES ('c', 'd', 'e', 'f', 'p', 'i', 'w', 'Nowhere', 'b', 'n')",
    ],
)
def test_a_row_that_cannot_be_read_makes_the_journal_broken(tmp_path: Path, statement: str) -> None:
    """SQLite has no checksums: the file is set aside at the next start, and until then every answer says so."""
    path = tmp_path / "journal.db"
    with closing(Journal(path, "b")) as journal:
        journal.put_partition(ROW)
        change(path, statement)
        with pytest.raises(NotReady, match=r"journal.db is broken: a row cannot be read"):
            [journal.partitions(), journal.claims(), journal.sharing(), journal.networks()]
        assert "the next one sets it aside" in journal.broken
    if "networks" not in statement and "sharing" not in statement:
        with pytest.raises(BrokenInput, match=r"journal.db cannot be read"):
            read_journal(path)
    with closing(Journal(path, "b")) as journal:
        assert journal.fresh
        assert journal.broken == ""
    assert (tmp_path / "journal.broken").exists()


def test_pages_that_were_overwritten_make_the_journal_broken_for_reads_and_writes(tmp_path: Path) -> None:
    """SQLite says so, and a retry would never end."""
    path = tmp_path / "journal.db"
    with closing(Journal(path, "b")) as journal, closing(Journal(path, "b")) as other:
        journal.put_partition(ROW)
        damage(path)
        with pytest.raises(NotReady, match="broken: database disk image is malformed"):
            journal.put_partition(ROW)
        with pytest.raises(NotReady, match="broken: database disk image is malformed"):
            other.partitions()
        assert journal.broken == other.broken != ""


def test_an_index_that_lacks_a_row_is_found_at_the_next_start(tmp_path: Path) -> None:
    """Else every agent would find it when it removes that row, and end."""
    path = tmp_path / "journal.db"
    with closing(Journal(path, "b")) as journal:
        journal.put_partition(ROW)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema=ON")
        with db:
            db.execute("UPDATE sqlite_master SET sql=sql || ' WHERE 0' WHERE name='partitions_by_card'")
        db.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("REINDEX partitions_by_card")
        db.execute("PRAGMA writable_schema=ON")
        with db:
            db.execute(
                "UPDATE sqlite_master SET sql=replace(sql, ' WHERE 0', '') WHERE name='partitions_by_card'"
            )
    with closing(Journal(path, "b")) as journal:
        assert journal.fresh
    assert (tmp_path / "journal.broken").exists()


async def test_an_agent_whose_journal_breaks_ends_with_the_reason_and_the_next_one_knows_the_claims(
    make_node: MakeNode, namespace: str
) -> None:
    """No trace of a stack: exit status 1, and a sentence with the file. What is prepared stays prepared."""
    async with make_node(cards=[H100]) as node:
        options = node.options
        command = [
            *(sys.executable, "-m", "apportion", "agent", "--node-name", node.name, "--backend", "simulated"),
            *("--simulation", options.simulation, "--plugins-dir", options.plugins_dir),
            *(
                "--registry-dir",
                options.registry_dir,
                "--cdi-dir",
                options.cdi_dir,
                "--run-dir",
                options.run_dir,
            ),
            *("--state-dir", options.state_dir, "--kubeconfig", options.kubeconfig, "--health-port", "0"),
        ]
        agent = await asyncio.create_subprocess_exec(
            *map(str, command),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            await eventually(node.is_served)
            claim = await node.claim(namespace, "mine", "gpu-0")
            assert await node.prepared(claim) == ""
            damage(options.state_dir / "journal.db")
            async with asyncio.timeout(30):
                said, _ = await agent.communicate()
        finally:
            if agent.returncode is None:
                agent.kill()
        text = said.decode()
        assert agent.returncode == 1, text
        assert "Traceback" not in text
        assert f"error: the journal {options.state_dir}/journal.db is broken: " in text.splitlines()[-1]
        other = await node.claim(namespace, "other", "gpu-0")
        async with node.agent(boot_id=Path("/proc/sys/kernel/random/boot_id")):
            refused = await node.prepared(other)
            assert f"is held by ResourceClaim {namespace}/mine" in refused
        assert (options.state_dir / "journal.broken").exists()
