"""Binaries of earlier runs, per user and version; shared by all testbeds of the user."""

import asyncio
import fcntl
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import platformdirs

from testbed.errors import Unavailable
from testbed.projects import project_of
from testbed.versions import Program

_LOOK_SECONDS = 0.3


class Cache:
    """A folder per program and version below `root` (the user's cache folder if not given)."""

    title = "cache"

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or platformdirs.user_cache_path("apportion") / "testbed"

    def place(self, program: Program) -> Path:
        """Return the program's path in the cache."""
        project = project_of(program.name)
        folder = f"{project.name}-{program.version}" if project.version else program.version
        return self.root / folder / program.name

    async def find(self, program: Program) -> Path:
        """Return the program's path. Raises Unavailable when it was never installed."""
        place = self.place(program)
        if not place.is_file():
            raise Unavailable(f"{place} does not exist yet")
        return place

    @asynccontextmanager
    async def exclusive(self, program: Program, waiting: Callable[[str], None]) -> AsyncIterator[Path]:
        """Hold this program's lock and yield an empty folder next to its place, so that one process at a time gets it.

        While another process holds the lock, `waiting` is called with a text. The kernel drops the lock of a dead process.
        """
        place = self.place(program)
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / f".{program.name}.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    waiting("another testbed is getting it")
                    await asyncio.sleep(_LOOK_SECONDS)
                else:
                    break
            scratch = Path(tempfile.mkdtemp(prefix=f".{program.name}-", dir=place.parent))
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def install(self, program: Program, made: Path) -> Path:
        """Move a finished program from the yielded folder to its place atomically."""
        place = self.place(program)
        made.chmod(0o755)
        return made.replace(place)
