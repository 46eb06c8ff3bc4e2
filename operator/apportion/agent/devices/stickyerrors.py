"""Sticky errors: errors that the driver reports once and that no later query shows.

In: a folder, the boot id. Out: the cards and partitions that have one, for every process and after every restart. A reboot clears
them, because it resets the hardware, and so does `node recover`; those of a partition go with it. One file per UUID, so that two agents
never write the same.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import structlog

from apportion.agent import files

_log = structlog.get_logger()
_CONTAINED = ".contained"


@dataclass(frozen=True, slots=True)
class ContainedErrors:
    """What is known of a card's memory errors."""

    contained: int = 0
    """How many were contained: they hit partitions, whose marks they are."""
    counted: int = 0
    """What the card's counter said when it was last read; a smaller one began anew."""


class StickyErrors:
    """The sticky errors of one node; without a folder they last as long as the process."""

    def __init__(self, folder: Path | None = None, boot_id: str = "") -> None:
        self._folder = folder
        self._boot_id = boot_id
        self._unkept: dict[str, str] = {}
        self._unkept_counts: dict[str, ContainedErrors] = {}

    def all(self) -> dict[str, str]:
        """Return the reasons by UUID of a card or partition."""
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
        """Keep an error of a card or partition. One that cannot be written lasts as long as the process."""
        if not self._write(f"{uuid}.json", {"reason": reason}):
            self._unkept[uuid] = reason

    def contained(self, uuid: str) -> ContainedErrors:
        """Return what is known of a card's memory errors."""
        if uuid in self._unkept_counts:
            return self._unkept_counts[uuid]
        raw = files.read_json(self._folder / f"{uuid}{_CONTAINED}") if self._folder is not None else {}
        if raw.get("boot") != self._boot_id:
            return ContainedErrors()
        errors = int(raw.get("errors", 0))
        return ContainedErrors(errors, int(raw.get("counted", errors)))

    def note_contained(self, uuid: str, errors: ContainedErrors) -> None:
        """Keep what is known of a card's memory errors."""
        self._unkept_counts.pop(uuid, None)
        if not self._write(f"{uuid}{_CONTAINED}", {"errors": errors.contained, "counted": errors.counted}):
            self._unkept_counts[uuid] = errors

    def _write(self, name: str, facts: dict[str, object]) -> bool:
        if self._folder is None:
            return False
        try:
            files.write(self._folder / name, json.dumps({"boot": self._boot_id, **facts}))
        except OSError as error:
            _log.warning("card.error_not_kept", file=name, error=str(error))
            return False
        return True

    def remove(self, uuid: str) -> bool:
        """Clear the error of a card or partition; returns whether it had one."""
        had = uuid in self.all()
        self._unkept.pop(uuid, None)
        if self._folder is not None and self._folder.is_dir():
            (self._folder / f"{uuid}.json").unlink(missing_ok=True)
        return had
