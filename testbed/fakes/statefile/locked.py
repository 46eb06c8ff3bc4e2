"""Changes of a fake's state file, in one go for all processes.

In: the file, its layout. Out: the state, written back under the file's lock.
"""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

S = TypeVar("S", bound=ctypes.Structure)


@contextmanager
def changing(path: Path, layout: type[S]) -> Iterator[S]:
    """Yield the state under its lock and write it back; all processes see the changes at once."""
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = layout.from_buffer_copy(file.read())
        yield state
        # In place, because processes have mapped the file.
        os.pwrite(file.fileno(), bytes(state), 0)
