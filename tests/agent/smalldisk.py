"""A file system of one megabyte, which tests fill up."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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
        """Give it back."""
        self._filler.unlink()

    def writable(self, *, on: bool) -> None:
        """Mount it anew, read-only or not."""
        subprocess.run(["mount", "-o", f"remount,{'rw' if on else 'ro'}", self.folder], check=True)


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount one; skips the test where this process may not."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a file system that fills up takes the right to mount one")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
