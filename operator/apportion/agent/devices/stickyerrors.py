"""Marks: which cards reported an error that no later question to the driver would show again.

In: a folder, the boot id. Out: the marked cards, for every process that looks and after every restart. A reboot wipes them, because
it resets the hardware; else a person takes them off. One file per card, so that two agents never write the same.
"""

import json
from pathlib import Path

import structlog

from apportion.agent import files

_log = structlog.get_logger()


class StickyErrors:
    """The marks of one node; without a folder they last as long as the process."""

    def __init__(self, folder: Path | None = None, boot_id: str = "") -> None:
        self._folder = folder
        self._boot_id = boot_id
        self._unkept: dict[str, str] = {}

    def all(self) -> dict[str, str]:
        """Return why each card is marked, by UUID."""
        found = dict(self._unkept)
        if self._folder is None or not self._folder.is_dir():
            return found
        for path in sorted(self._folder.glob("*.json")):
            raw = _read(path)
            if raw.get("boot") == self._boot_id:
                found[path.stem] = raw.get("reason", "")
        return found

    def add(self, uuid: str, reason: str) -> None:
        """Mark a card. A mark that cannot be kept lasts as long as the process."""
        if self._folder is None:
            self._unkept[uuid] = reason
            return
        text = json.dumps({"boot": self._boot_id, "reason": reason})
        try:
            files.write(self._folder / f"{uuid}.json", text)
        except OSError as error:
            self._unkept[uuid] = reason
            _log.warning("card.mark_not_kept", uuid=uuid, error=str(error))

    def remove(self, uuid: str) -> bool:
        """Take a card's mark off; returns whether it had one."""
        had = uuid in self.all()
        self._unkept.pop(uuid, None)
        if self._folder is not None and self._folder.is_dir():
            (self._folder / f"{uuid}.json").unlink(missing_ok=True)
        return had


def _read(path: Path) -> dict[str, str]:
    """Return a mark; one that cannot be read counts as none, and is written again with the next error."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}
