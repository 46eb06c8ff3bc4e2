"""The health of chips: whether they answer, and what alarms they raise.

In: a session and the chips. Out: a health per card that is not healthy. The driver's own grades: 0 normal, 1 minor, 2
major, 3 critical (dcmi_get_device_health); with 2 and 3 new work should stay away, a chip that is not there is lost.
"""

from collections.abc import Iterable
from ctypes import byref, c_int, c_uint
from typing import Final

import structlog

from apportion.agent.devices.ascend.chips import Chip
from apportion.agent.devices.ascend.session import NO_SUCH_DEVICE, Session
from apportion.agent.devices.values import Health

_log = structlog.get_logger()

_MINOR: Final = 1
_NOT_THERE: Final = 0xFFFFFFFF
_MOST_CODES: Final = 128
"""As many as the library has at once; a shorter list is an error to it."""


class HealthMonitor:
    """Asks every chip, and logs changes once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: dict[str, Health] = {}

    def look(self, chips: Iterable[Chip]) -> dict[str, Health]:
        """Return the health of the cards that are not healthy."""
        found = {chip.name: self._of(chip) for chip in chips}
        for chip in chips:
            if found[chip.name] is not self._last.get(chip.name, Health.HEALTHY):
                _log.warning(
                    "ascend.health", card=chip.name, health=str(found[chip.name]), faults=self._faults(chip)
                )
        self._last |= found
        return {name: health for name, health in found.items() if health is not Health.HEALTHY}

    def _of(self, chip: Chip) -> Health:
        grade = c_uint()
        code = self._session.ask(
            "dcmi_get_device_health", chip.address.card, chip.address.device, byref(grade)
        )
        if code in NO_SUCH_DEVICE or (code == 0 and grade.value == _NOT_THERE):
            return Health.LOST
        # A chip that cannot be asked now gets no new work; work that runs on it may be healthy.
        return Health.HEALTHY if code == 0 and grade.value <= _MINOR else Health.SICK

    def _faults(self, chip: Chip) -> list[str]:
        """Return the codes of the alarms; the call that also describes them is answered for 950 only."""
        codes, count = (c_uint * _MOST_CODES)(), c_int()
        address = chip.address
        asked = self._session.ask(
            "dcmi_get_device_errorcode_v2", address.card, address.device, byref(count), codes, _MOST_CODES
        )
        return [f"{code:#x}" for code in codes[: count.value]] if asked == 0 else []
