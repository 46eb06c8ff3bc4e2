"""BegunCuts: the partitions that are being cut, written down a second time for the case that the journal is lost.

In: UIDs of Partitions, before the driver is called for them and once their status names what was made. Out: the same after a
crash. One empty file each, in a folder that a reboot empties. Without it nobody could tell what a killed agent was making from
what a person made: its object says nothing of it yet.
"""

from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from apportion.errors import NotReady

BEGUN: Final = "cuts"
"""The folder's name below the agent's own in /run."""


class BegunCuts:
    """The files. Two agents of a rolling update share them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: set[str] = set(self.all())
        """Those that are there as far as this agent knows: nothing is asked of the disk for the others."""

    def note(self, uid: str) -> None:
        """Write down that a partition is about to be cut. Raises NotReady when that is impossible."""
        file = self._file(uid)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError as error:
            raise NotReady(f"{file} cannot be written: {error}") from None
        self._own.add(uid)

    def forget(self, uid: str) -> None:
        """Forget a partition: its status names it, or it is gone."""
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
