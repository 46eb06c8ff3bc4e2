"""A small file system, which tests fill up.

In: a folder. Out: a disk mounted there, which is filled, freed and made read-only. Mounting takes root.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import Unavailable


class SmallDisk:
    """Mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Take what is left of it."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """Give it back; a disk that is not full stays as it is."""
        self._filler.unlink(missing_ok=True)

    def writable(self, *, on: bool) -> None:
        """Mount it anew, read-only or not."""
        subprocess.run(["mount", "-o", f"remount,{'rw' if on else 'ro'}", self.folder], check=True)


@contextmanager
def small_disk(folder: Path, *, megabytes: int = 1) -> Iterator[SmallDisk]:
    """Mount one for as long as the context lasts. Raises Unavailable where this process may not."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        raise Unavailable("a file system that fills up takes the right to mount one")
    try:
        yield SmallDisk(folder)
    finally:
        # A process of the test may still be ending in it.
        subprocess.run(["umount", "--lazy", folder], check=True)
