"""What one backend has found: its cards, and whether there may be more.

In: a backend, threads. Out: the cards of the last discovery that was answered, and why the last one was not. A backend is asked in a thread,
with a deadline, because it reads files of drivers that may hang; while a call is out, its answer is waited for instead of another.
"""

import structlog

from apportion.agent.devices.backend import Backend
from apportion.agent.devices.threads import OneCall, Threads
from apportion.agent.devices.values import Card
from apportion.errors import HardwareError, Lost

_log = structlog.get_logger()


class Findings:
    """Of one backend."""

    def __init__(self, backend: Backend, threads: Threads) -> None:
        """Nothing was asked yet."""
        self._backend = backend
        self._threads = threads
        self._cards: tuple[Card, ...] = ()
        self._more = False
        self._discovering = OneCall[tuple[tuple[Card, ...], bool]]()
        self._looking = OneCall[bool]()
        self.failure: HardwareError | None = None
        """Why the backend could not be asked for its cards at the last discovery."""

    @property
    def incomplete(self) -> bool:
        """Whether another discovery may find more, as last seen."""
        return self.failure is not None or self._more

    async def discover(self, seconds: float) -> tuple[Card, ...]:
        """Return the cards now; those of before where the backend fails, or does not answer within these seconds."""
        found = await self._discovering.answered(lambda: self._threads.call(self._discovered), seconds)
        try:
            if found is None:
                raise Lost("cards are looked for, and their driver has not answered yet")
            self._cards, self._more = found.result()
            self.failure = None
        except HardwareError as error:
            _log.warning("hardware.not_found", error=str(error))
            self.failure = error
        return self._cards

    async def look(self, seconds: float) -> None:
        """Ask whether another discovery may find more; without an answer within these seconds that is as it was."""
        found = await self._looking.answered(lambda: self._threads.call(self._backend.incomplete), seconds)
        if found is not None:
            self._more = found.result()

    def _discovered(self) -> tuple[tuple[Card, ...], bool]:
        return self._backend.devices(), self._backend.incomplete()
