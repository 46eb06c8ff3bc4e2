"""What claims have had set up, noted beside the journal for the case that it is lost: no driver says by whom a time slice was set.

In: the journal's rows, before anything of them is done. Out: the same, for an agent whose journal lacks them. One file for each row, in a
folder that a reboot empties, as it takes back what was set up.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from apportion.agent import files
from apportion.agent.rows import SharingRow
from apportion.errors import NotReady


class SetupNotes:
    """The files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, row: SharingRow) -> None:
        """Note a row. Raises NotReady when the folder takes no file: nothing may be set up then."""
        try:
            files.write(self._path(row.uid, row.driver), row.to_json(), sync=False)
        except OSError as error:
            raise NotReady(f"{self._folder} cannot be written: {error}") from None

    def drop(self, row: SharingRow) -> None:
        """Forget a row of which all was taken back; one that was not noted is fine. Raises NotReady."""
        try:
            self._path(row.uid, row.driver).unlink(missing_ok=True)
        except OSError as error:
            raise NotReady(f"{self._folder} cannot be changed: {error}") from None

    def beyond(self, known: Iterable[SharingRow]) -> Iterator[SharingRow]:
        """Yield what is noted of other claims than these; a file that is no row is passed over."""
        for path in sorted(
            {*self._folder.glob("*.json")} - {self._path(row.uid, row.driver) for row in known}
        ):
            try:
                yield SharingRow.from_json(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, TypeError, KeyError):
                continue

    def _path(self, uid: str, driver: str) -> Path:
        return self._folder / f"{driver}_{uid}.json"
