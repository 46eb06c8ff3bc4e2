"""Sticky errors: errors that the driver reports once and that no later query shows.

In: a folder, the boot id. Out: the cards that have one, for every process and after every restart. A reboot clears them, because
it resets the hardware, and so does `node recover`. One file per card, so that two agents never write the same.
"""

import json
from pathlib import Path

import structlog

from apportion.agent import files

_log = structlog.get_logger()


class StickyErrors:
    """The sticky errors of one node; without a folder they last as long as the process."""

    def __init__(self, folder: Path | None = None, boot_id: str = "") -> None:
        self._folder = folder
        self._boot_id = boot_id
        self._unkept: dict[str, str] = {}

    def all(self) -> dict[str, str]:
        """Return the reasons by card UUID."""
        found = dict(self._unkept)
        if self._folder is None or not self._folder.is_dir():
            return found
        for path in sorted(self._folder.glob("*.json")):
            # One that cannot be read counts as none, and is written again with the next error.
            raw = files.read_json(path)
            if raw.get("boot") == self._boot_id:
                found[path.stem] = raw.get("reason", "")
        return found

    def add(self, uuid: str, reason: str) -> None:
        """Keep an error of a card. One that cannot be written lasts as long as the process."""
        if self._folder is None:
            self._unkept[uuid] = reason
            return
        text = json.dumps({"boot": self._boot_id, "reason": reason})
        try:
            files.write(self._folder / f"{uuid}.json", text)
        except OSError as error:
            self._unkept[uuid] = reason
            _log.warning("card.error_not_kept", uuid=uuid, error=str(error))

    def remove(self, uuid: str) -> bool:
        """Clear a card's error; returns whether it had one."""
        had = uuid in self.all()
        self._unkept.pop(uuid, None)
        if self._folder is not None and self._folder.is_dir():
            (self._folder / f"{uuid}.json").unlink(missing_ok=True)
        return had
