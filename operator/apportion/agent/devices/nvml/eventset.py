"""An event set of the driver: to which GPUs' events go, freed before its session ends.

In: a session. Out: events. A set that is not freed keeps the device files of its GPUs open for as long as the process lives, also after
the session's end, and freeing it later changes nothing (seen on an H200, driver 580.159.04): the driver could not be exchanged.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pynvml
import structlog

from apportion.agent.devices.nvml.session import Released, Session

_log = structlog.get_logger()

_nvml: Any = pynvml
"""The same module where its missing annotations stand in the way."""
_TIMED_OUT: Final = frozenset({pynvml.NVML_ERROR_TIMEOUT})
_LONGEST_USE: Final = 1.0
"""Seconds to wait for calls that are under way: one may hang with its GPU."""


class EventSet:
    """One set; safe to use from several threads, also while it is being freed, which its owner does before the session ends."""

    def __init__(self, session: Session) -> None:
        """Raises HardwareError when the driver makes none."""
        self._session = session
        self._made_in = session.ended
        self._handle = session.call("nvmlEventSetCreate")
        self._idle = threading.Condition()
        self._users = 0
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether its session is the one of now, and it was not freed."""
        return self._made_in == self._session.ended and not self._closed

    def register(self, gpu: Any, types: int, about: str) -> None:
        """Let a GPU's events of these types (nvmlEventType*) come. Raises HardwareError."""
        with self._used() as handle:
            self._session.call("nvmlDeviceRegisterEvents", gpu, types, handle, about=about)

    def next(self) -> Any:
        """Return the next event that has come (nvmlEventData_t), None when there is none. Raises HardwareError."""
        with self._used() as handle:
            return self._session.ask("nvmlEventSetWait", handle, 0, none_on=_TIMED_OUT)

    def free(self) -> None:
        """Free it, once no call uses it; one that hangs keeps it."""
        with self._idle:
            if self._closed:
                return
            self._closed = True
            if not self._idle.wait_for(lambda: not self._users, _LONGEST_USE):
                _log.warning("nvml.event_set_left", hint="a call to the driver does not return")
                return
        # Elsewhere the handle would be another session's, or nobody's.
        if self._made_in == self._session.ended:
            try:
                _nvml.nvmlEventSetFree(self._handle)
            except _nvml.NVMLError as error:
                _log.warning("nvml.event_set_left", error=str(error))

    @contextmanager
    def _used(self) -> Iterator[Any]:
        with self._idle:
            if self._closed:
                raise Released("NVML: the event set was freed")
            self._users += 1
        try:
            yield self._handle
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()
