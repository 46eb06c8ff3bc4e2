"""A ballast file: room on the disk that is given up when it is full, for what has to be written all the same.

In: a path beside the journal. Out: the file, as long as the disk has room for it, in pieces. Kubelet frees what a pod has written after the
pod's claims are unprepared: without the ballast a pod that has filled the disk could never end.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_PIECE: Final = 64 * 1024
"""Bytes: more than one step of a claim takes."""
_SIZE: Final = 4 * _PIECE


class Ballast:
    """The file. Two agents of a rolling update share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self) -> None:
        """Take the room, or again what of it was given up; on a disk that has none, later."""
        with suppress(OSError):
            if self._size() < _SIZE:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(file, 0, _SIZE)
                finally:
                    os.close(file)

    def give_up(self) -> bool:
        """Give up a piece; returns whether there was one."""
        size = self._size()
        if size == 0:
            return False
        try:
            os.truncate(self._path, max(size - _PIECE, 0))
        except OSError:
            return False
        return True

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
