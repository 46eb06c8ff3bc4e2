"""BegunCuts: the partitions that are being cut, written down a second time for the case that the journal is lost.

In: UIDs of Partitions and their places, before the driver is called for them, when it timed out, and once their status names what was made.
Out: the same after a crash. One file each, in a folder that a reboot empties. Without it nobody could tell what a killed agent was making
from what a person made: its object says nothing of it yet, and of a vNPU not even where it is.
"""

from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import structlog

from apportion.agent.devices.values import Placement
from apportion.errors import NotReady

BEGUN: Final = "cuts"
"""The folder's name below the agent's own in /run."""
_TIMED_OUT: Final = "timed out"
_log = structlog.get_logger()


class BegunCuts:
    """The files. Two agents of a rolling update share them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: set[str] = set(self.all())
        """Those that are there as far as this agent knows: nothing is asked of the disk for the others."""
        self._timed_out: dict[str, float] = {}
        """When the driver timed out, or this agent learnt that it has, by UID."""

    def note(self, uid: str, placement: Placement) -> None:
        """Write down that a partition is about to be cut, and where. Raises NotReady when that is impossible."""
        file = self._file(uid)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self.placement(uid) != placement:
                file.write_text(f"{placement.start} {placement.size}\n", encoding="utf-8")
        except OSError as error:
            raise NotReady(f"{file} cannot be written: {error}") from None
        self._own.add(uid)

    def note_timeout(self, uid: str, now: float) -> None:
        """Write down that the driver timed out for a partition that was noted. On a full disk no other agent learns it."""
        self._timed_out[uid] = now
        file = self._file(uid)
        try:
            if not _timed_out(file):
                with file.open("a", encoding="utf-8") as text:
                    text.write(_TIMED_OUT)
        except OSError as error:
            _log.warning("partition.timeout_not_noted", uid=uid, error=str(error))

    def may_come(self, uid: str, now: float, seconds: float) -> bool:
        """Say whether a driver that timed out may make a partition yet: for so many seconds, counted anew by an agent that only reads of it."""
        if uid not in self._timed_out and _timed_out(self._file(uid)):
            self._own.add(uid)
            self._timed_out[uid] = now
        return uid in self._timed_out and now < self._timed_out[uid] + seconds

    def placement(self, uid: str) -> Placement | None:
        """Return where a partition was about to be cut; None: that is not known."""
        try:
            start, size = self._file(uid).read_text(encoding="utf-8").splitlines()[0].split()
            return Placement(int(start), int(size))
        except (OSError, IndexError, ValueError):
            return None

    def forget(self, uid: str) -> None:
        """Forget a partition: its status names it, or it is gone."""
        self._timed_out.pop(uid, None)
        if uid in self._own:
            self._file(uid).unlink(missing_ok=True)
            self._own.discard(uid)

    def all(self) -> frozenset[str]:
        """Return the UIDs."""
        if not self._folder.is_dir():
            return frozenset()
        return frozenset(unquote(path.name) for path in self._folder.iterdir())

    def _file(self, uid: str) -> Path:
        # What is cut by hand has no object, and slashes in its UID.
        return self._folder / quote(uid, safe="")


def _timed_out(file: Path) -> bool:
    try:
        return file.read_text(encoding="utf-8").endswith(_TIMED_OUT)
    except OSError:
        return False
