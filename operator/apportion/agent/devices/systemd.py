"""Transient units of the host's systemd: programs that run on the host and outlive the agent's container.

In: a unit's name and properties. Out: the unit's state. The agent asks as the container runtime does for its control groups: over the
host's D-Bus system bus (systemd.io: org.freedesktop.systemd1). Nothing of a transient unit is left after a reboot.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jeepney import DBusAddress, DBusErrorResponse, new_method_call
from jeepney.io.blocking import DBusConnection, prep_socket
from jeepney.low_level import Message
from jeepney.wrappers import unwrap_msg

from apportion.errors import NotReady, Unsupported

_SYSTEMD = "org.freedesktop.systemd1"
_MANAGER = DBusAddress("/org/freedesktop/systemd1", _SYSTEMD, f"{_SYSTEMD}.Manager")
_ABSENT: Final = frozenset({f"{_SYSTEMD}.NoSuchUnit", f"{_SYSTEMD}.UnitNotLoaded"})
_THERE_ALREADY: Final = f"{_SYSTEMD}.UnitExists"
_ANSWER_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
"""Between two looks at a unit that starts or ends; its job's signal would need a loop of its own."""

Property = tuple[str, tuple[str, Any]]
"""Name, and value with its D-Bus signature."""


class _Connection(DBusConnection):
    """A connection on which every answer has its time, that to the greeting of a new connection, too."""

    def send_and_get_reply(self, message: Message, *, timeout: float | None = None) -> Message:
        """Send a message and return the answer. Raises TimeoutError."""
        seconds = timeout or _ANSWER_SECONDS
        reply: Message = DBusConnection.send_and_get_reply(self, message, timeout=seconds)
        return reply


class Systemd:
    """The systemd of the host whose `/` is at `root`."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._socket = root / "run/dbus/system_bus_socket"
        self._booted = root / "run/systemd/system"
        """Where this folder is, systemd started the host (sd_booted(3)); elsewhere there are no units."""
        self._clock = clock
        self._sleep = sleep

    def start(self, unit: str, properties: Sequence[Property], seconds: float) -> None:
        """Start a unit and wait until it is active; one that is active already is left alone.

        Raises Unsupported without a systemd or with its refusal; NotReady when systemd does not answer, and when the unit fails or is
        not active after `seconds`: then nothing of it runs.
        """
        deadline = self._clock() + seconds
        if not self._booted.is_dir():
            raise Unsupported("the host was not started by systemd, which would keep the program running")
        with self._bus() as call:
            if self._state(call, unit)[0] != "active":
                self._end(call, unit, deadline)
                try:
                    call("StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "fail", list(properties), []))
                except DBusErrorResponse as error:
                    if error.name != _THERE_ALREADY:
                        raise Unsupported(f"systemd refuses {unit}: {_text(error)}") from None
            state = self._state(call, unit)
            while state[0] != "active":
                failed = state[0] in {"", "failed"} or state[1] == "auto-restart"
                if failed or self._clock() >= deadline:
                    self._end(call, unit, self._clock() + _ANSWER_SECONDS)
                    why = "has failed" if failed else f"is not active after {seconds:g} s"
                    raise NotReady(f"{unit} {why} ({'/'.join(state).strip('/') or 'gone'})")
                self._sleep(_LOOK_SECONDS)
                state = self._state(call, unit)

    def stop(self, unit: str) -> None:
        """End a unit and wait until no process of it is left; an absent one is fine. Raises NotReady while it may be there."""
        if self._booted.is_dir():
            with self._bus() as call:
                self._end(call, unit, self._clock() + _ANSWER_SECONDS)

    def states(self, pattern: str) -> Mapping[str, str]:
        """Return the state (`ActiveState`) of the units whose name matches; without a systemd there are none."""
        if not self._booted.is_dir():
            return {}
        with self._bus() as call:
            (rows,) = call("ListUnitsByPatterns", "asas", ([], [pattern]))
        return {row[0]: row[3] for row in rows}

    def _end(self, call: Callable[..., Any], unit: str, deadline: float) -> None:
        asked = False
        while (state := self._state(call, unit))[0] not in {"", "inactive", "failed"}:
            if asked and self._clock() >= deadline:
                raise NotReady(f"{unit} has not ended yet ({'/'.join(state)})")
            if not asked:
                _tolerant(call, "StopUnit", "ss", (unit, "replace"))
                asked = True
            else:
                self._sleep(_LOOK_SECONDS)
        if state[0]:
            # A unit that has failed keeps its name until somebody says that it was seen.
            _tolerant(call, "ResetFailedUnit", "s", (unit,))

    def _state(self, call: Callable[..., Any], unit: str) -> tuple[str, str]:
        """Return active and sub state of a unit, two empty texts when there is none."""
        # Names of mounts have backslashes, which patterns may take for escapes.
        (rows,) = call("ListUnitsByPatterns", "asas", ([], [unit.replace("\\", "?")]))
        return next(((row[3], row[4]) for row in rows if row[0] == unit), ("", ""))

    @contextmanager
    def _bus(self) -> Iterator[Callable[..., Any]]:
        try:
            connection = _Connection(prep_socket(str(self._socket), timeout=_ANSWER_SECONDS))
        except (OSError, ValueError, DBusErrorResponse) as error:
            raise NotReady(f"the host's systemd does not answer at {self._socket}: {error}") from None
        try:
            with connection:
                yield lambda *message: _call(connection, *message)
        except DBusErrorResponse as error:
            raise NotReady(f"the host's systemd: {error.name}: {_text(error)}") from None


def _call(connection: DBusConnection, method: str, signature: str, body: tuple[Any, ...]) -> Any:
    try:
        reply = connection.send_and_get_reply(new_method_call(_MANAGER, method, signature, body))
    except OSError as error:
        raise NotReady(f"systemd does not answer {method}: {error}") from None
    return unwrap_msg(reply)


def _tolerant(call: Callable[..., Any], method: str, signature: str, body: tuple[Any, ...]) -> None:
    """Call about a unit that may be gone meanwhile."""
    try:
        call(method, signature, body)
    except DBusErrorResponse as error:
        if error.name not in _ABSENT:
            raise Unsupported(f"systemd refuses {method} {body[0]}: {_text(error)}") from None


def _text(error: DBusErrorResponse) -> str:
    return str(error.data[0]) if error.data else str(error.name)
