"""Which of a node's agents publishes its slices: the one that was ready to last, as long as its process lives.

In: a folder that the two agents of a rolling update share, and that a reboot empties. Out: whether it is this agent's turn. Each one marks its turn by
a file that it keeps locked (flock), so that the mark of a killed one counts no more. Agents of two releases may say different things, and
each would put right for ever what the other one has written.
"""

import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

PUBLISHERS: Final = "publishers"
"""The folder's name below the agent's own in /run; it has one for each node that runs there."""
_log = structlog.get_logger()


class Succession:
    """This agent among those of its node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = ""
        """The name of our file, "" before our turn: a number that grows from turn to turn, and what makes it unique."""
        self._handle = -1

    def is_over(self) -> bool:
        """Say whether this agent had its turn, and another one that came after it has it now."""
        return self._mark != "" and self._mark < max(self._others(), default="")

    def is_ours(self, *, ready: bool) -> bool:
        """Say whether it is this agent's turn: it takes over once it is `ready`, or where nobody else is."""
        others = self._others()
        if not self._mark and (ready or not others):
            self._take(1 + max((int(name.partition("-")[0]) for name in others), default=0))
        return not others or self._mark > max(others)

    def give_back(self) -> bool:
        """End this agent's turn for now, where another one lives that goes on; returns whether there is one."""
        others = bool(self._others())
        if others:
            self.close()
        return others

    def close(self) -> None:
        """End this agent's turn, and leave nothing."""
        if self._mark:
            with suppress(OSError):
                (self._folder / self._mark).unlink(missing_ok=True)
            os.close(self._handle)
            self._mark = ""

    def _take(self, number: int) -> None:
        unique = uuid.uuid4().hex
        begun = self._folder / f".{unique}"
        handle = -1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Others see it locked only.
            mark = f"{number:08}-{unique}"
            begun.rename(self._folder / mark)
        except OSError as error:
            _log.warning("slices.turn_not_taken", error=str(error))
            if handle >= 0:
                os.close(handle)
            return
        self._mark, self._handle = mark, handle

    def _others(self) -> list[str]:
        """Return the marks of other agents that live, and remove those of the dead."""
        try:
            names = {path.name for path in self._folder.iterdir() if not path.name.startswith(".")}
        except OSError:
            return []
        return [name for name in names - {self._mark} if self._lives(self._folder / name)]

    def _lives(self, mark: Path) -> bool:
        try:
            handle = os.open(mark, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # Shared, so that two who look at once do not take each other for its owner.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        with suppress(OSError):
            mark.unlink(missing_ok=True)
        return False
