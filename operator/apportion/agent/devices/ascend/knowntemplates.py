"""The templates that npu-smi has named for a chip: it looks at every chip of the node first, and a sick one keeps it from answering in time.

In: chips. Out: their templates as npu-smi names them, or when it names none, as it did before, also to another agent, as long as the driver
is the same one: a chip that is cut would be published whole. One file for each chip.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import structlog

from apportion.agent import files
from apportion.agent.devices.ascend import templates
from apportion.agent.devices.values import CounterAmounts

_log = structlog.get_logger()
_Templates = Mapping[str, CounterAmounts]


class KnownTemplates:
    """Of one node's chips; without a folder they last as long as the process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], _Templates] = {}
        """By UUID of the chip and version of the driver."""

    def ask(self, card: int, root: Path, chip: str, driver: str) -> _Templates:
        """Return amounts by template of a chip (UUID) on a card of DCMI, under this version of the driver; {}: nobody has ever named one."""
        found = templates.parse(templates.ask(card, root))
        if not found:
            return self._get(chip, driver)
        self._put(chip, driver, found)
        return found

    def _put(self, chip: str, driver: str, found: _Templates) -> None:
        """Keep them. What cannot be written lasts as long as the process."""
        self._known[chip, driver] = found
        if self._folder is not None:
            try:
                files.write(self._folder / f"{chip}.json", json.dumps({"driver": driver, "templates": found}))
            except OSError as error:
                _log.warning("ascend.templates_not_kept", chip=chip, error=str(error))

    def _get(self, chip: str, driver: str) -> _Templates:
        if (chip, driver) not in self._known and self._folder is not None:
            raw = files.read_json(self._folder / f"{chip}.json")
            try:
                if raw.get("driver") == driver:
                    self._known[chip, driver] = {
                        str(name): {str(key): int(value) for key, value in row.items()}
                        for name, row in raw["templates"].items()
                    }
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                _log.warning("ascend.templates_unreadable", chip=chip, error=repr(error))
        return self._known.get((chip, driver), {})
