"""A disk that is full, read-only or broken keeps the journal from being used, and destroys nothing of it."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from apportion.agent.journal import Journal
from apportion.errors import NotReady
from testbed.smalldisk import SmallDisk
from tests.agent.journal.journalrow import ROW
from tests.agent.journal.smalldisk import small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mount a disk that can be filled."""
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def _written(path: Path) -> None:
    """Leave a journal with one row, ended cleanly: SQLite has removed its log then."""
    with closing(Journal(path, "b")) as journal:
        journal.note_interrupted(())
        journal.put_partition(ROW)
    assert {file.name for file in path.parent.iterdir()} == {"journal.db", "journal.ballast"}


def _opened(path: Path) -> tuple[set[str], bool]:
    with closing(Journal(path, "b")) as journal:
        return set(journal.partitions()), journal.fresh


def _refused(path: Path, patience: float = 10.0) -> str:
    with pytest.raises(NotReady) as raised:
        Journal(path, "b", patience=patience)
    return str(raised.value)


def _refused_in_a_process(
    path: Path, file_size: int = -1, environment: Mapping[str, str] | None = None
) -> str:
    """Open a journal in a process of its own, with a limit on the size of files; returns the text of the refusal."""
    code = (
        "import resource; from pathlib import Path; from apportion.agent.journal import Journal\n"
        "from apportion.errors import NotReady\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file_size}, {file_size}))\n"
        f"try: Journal(Path({str(path)!r}), 'b')\n"
        "except NotReady as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def test_a_full_disk_at_start_leaves_the_journal_as_it_is(disk: SmallDisk) -> None:
    """Started and refused twice, as kubelet does, where there is no ballast; with room it opens with its rows."""
    path = disk.folder / "journal.db"
    _written(path)
    (disk.folder / "journal.ballast").unlink()
    before = path.read_bytes()
    disk.fill()
    for _ in range(2):
        assert str(path) in _refused(path)
        assert path.read_bytes() == before
    assert not list(disk.folder.glob("*.broken*"))
    disk.free()
    assert _opened(path) == ({"p1"}, False)


def test_a_read_only_disk_at_start_leaves_the_journal_as_it_is(disk: SmallDisk) -> None:
    """The kernel mounts a file system read-only after errors: the rows are there, and count when it is writable."""
    path = disk.folder / "journal.db"
    _written(path)
    disk.writable(on=False)
    assert str(path) in _refused(path)
    disk.writable(on=True)
    assert _opened(path) == ({"p1"}, False)


def test_a_folder_that_cannot_be_made_is_named(disk: SmallDisk) -> None:
    """A state folder on a read-only disk: a refusal with its path, not an error of the operating system."""
    disk.writable(on=False)
    assert "state" in _refused(disk.folder / "state" / "journal.db")
    disk.writable(on=True)


def test_a_journal_that_was_made_on_a_full_disk_is_fresh_when_there_is_room(disk: SmallDisk) -> None:
    """The file exists and holds nothing: whether something is remembered is read from the content."""
    path = disk.folder / "journal.db"
    disk.fill()
    _refused(path)
    disk.free()
    assert _opened(path) == (set(), True)


def test_an_empty_file_is_a_fresh_journal(tmp_path: Path) -> None:
    """A power failure may leave a name without content; what was prepared is then recollected."""
    path = tmp_path / "journal.db"
    path.touch()
    assert _opened(path) == (set(), True)
    assert _opened(path) == (set(), True), "nobody has recollected anything yet"


@pytest.mark.slow
def test_a_journal_is_fresh_until_what_was_interrupted_is_written_down(tmp_path: Path) -> None:
    """A kill between the first start and that step must not make partitions that were being cut strangers."""
    path = tmp_path / "journal.db"
    code = (
        "import os, signal; from pathlib import Path; from apportion.agent.journal import Journal\n"
        f"journal = Journal(Path({str(path)!r}), 'b'); assert journal.fresh\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL
    with closing(Journal(path, "b")) as journal:
        assert journal.fresh
        journal.note_interrupted({"p1", "p2"})
        assert not journal.fresh
    with closing(Journal(path, "b")) as journal:
        assert not journal.fresh
        assert journal.interrupted() == {"p1", "p2"}
        journal.put_partition(ROW)
        assert journal.interrupted() == {"p2"}, "from here on its row says how far it is"


@pytest.mark.slow
def test_a_disk_that_takes_no_more_bytes_of_a_file_is_no_broken_journal(tmp_path: Path) -> None:
    """A failing write is an I/O error, whatever its cause; here it is a limit on the size of files."""
    path = tmp_path / "journal.db"
    _written(path)
    assert str(path) in _refused_in_a_process(path, file_size=1000)
    assert not list(tmp_path.glob("*.broken*"))
    assert _opened(path) == ({"p1"}, False)


def test_a_journal_that_another_process_has_locked_is_no_broken_one(tmp_path: Path) -> None:
    """Somebody copies it with a tool that locks it: the agent waits for its turn."""
    path = tmp_path / "journal.db"
    _written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert "locked" in _refused(path, patience=0.0)
    assert _opened(path) == ({"p1"}, False)


@pytest.mark.slow
def test_the_first_broken_journals_are_kept(tmp_path: Path) -> None:
    """Each has its own name, so that a later accident does not overwrite what the first one left; not without end."""
    path = tmp_path / "journal.db"
    for number in range(20):
        path.write_bytes(f"no database {number} ".encode() * 1000)
        assert _opened(path) == (set(), True)
    kept = sorted(tmp_path.glob("journal.broken*"))
    assert [file.name for file in kept[:3]] == ["journal.broken", "journal.broken.1", "journal.broken.2"]
    assert [file.read_bytes()[12:15].split()[0] for file in kept] == [b"%d" % n for n in range(len(kept))]
    assert len(kept) < 20


@pytest.mark.slow
def test_a_broken_journal_is_set_aside_with_its_log(tmp_path: Path) -> None:
    """After a kill the last rows stand in SQLite's log only: a person who wants to save them finds them."""
    path = tmp_path / "journal.db"
    _written(path)
    code = (
        "import os, signal; from pathlib import Path; from tests.agent.journal.journalrow import ROW\n"
        "from apportion.agent.journal import Journal\n"
        f"Journal(Path({str(path)!r}), 'b').put_partition(ROW); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    log = path.with_name("journal.db-wal").read_bytes()
    path.write_bytes(b"no database")
    assert _opened(path) == (set(), True)
    assert (tmp_path / "journal.broken-wal").read_bytes() == log


_READ_ERROR = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t page(int file, void *out, size_t size, off_t offset) {
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "journal.db") != NULL) {
        if (offset >= 4096) return errno = ERROR, -1;
        size = size < 4096 ? size : 4096;
    }
    struct iovec room = {out, size};
    return preadv(file, &room, 1, offset);
}

ssize_t pread64(int file, void *out, size_t size, off_t offset) { return page(file, out, size, offset); }
ssize_t pread(int file, void *out, size_t size, off_t offset) { return page(file, out, size, offset); }
ssize_t read(int file, void *out, size_t size) {
    off_t offset = lseek(file, 0, SEEK_CUR);
    struct iovec room = {out, size};
    if (offset < 0 || ERROR != EIO) return readv(file, &room, 1);
    ssize_t got = page(file, out, size, offset);
    if (got > 0) lseek(file, got, SEEK_CUR);
    return got;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EIO", "ESTALE"])
def test_a_disk_that_does_not_give_a_page_is_no_broken_journal(tmp_path: Path, error: str) -> None:
    """SQLite calls EIO a broken file, other errors by their name."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("reads that fail take a C compiler")
    (tmp_path / "failing.c").write_text(_READ_ERROR.replace("ERROR", error), encoding="ascii")
    library = tmp_path / "failing.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "failing.c"], check=True)
    folder = tmp_path / "state"
    folder.mkdir()
    path = folder / "journal.db"
    _written(path)
    assert str(path) in _refused_in_a_process(path, environment={"LD_PRELOAD": str(library)})
    assert not list(folder.glob("*.broken*"))
    assert _opened(path) == ({"p1"}, False)
