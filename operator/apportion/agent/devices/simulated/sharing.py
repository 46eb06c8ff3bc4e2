"""How programs share simulated GPUs: time slices, compute modes and control daemons are entries of the state file.

In: cards by name. Out: changed state, below `sharing`: `timeSlices` and `exclusive` by card, `daemons` by name.
"""

from collections.abc import Mapping
from typing import Any

from apportion.agent.devices.sharing import ControlDaemon, TimeSlice
from apportion.agent.devices.simulated.state import State, StateFile


class SimulatedSharing:
    """Sets up the GPUs of one simulated node."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    def set_time_slice(self, card: str, time_slice: TimeSlice) -> None:
        """Note the time slice of a card."""
        with self._state.changing() as state:
            _note(state, "timeSlices", card, int(time_slice) or None)

    def set_exclusive(self, card: str, *, exclusive: bool) -> None:
        """Note the compute mode of a card."""
        with self._state.changing() as state:
            _note(state, "exclusive", card, exclusive or None)

    def start_daemon(self, daemon: ControlDaemon, seconds: float) -> None:  # noqa: ARG002 - it takes no time here
        """Note a daemon with its devices and what it is told."""
        entry = {"devices": list(daemon.devices), "commands": list(daemon.commands)}
        with self._state.changing() as state:
            _note(state, "daemons", daemon.name, entry)

    def stop_daemon(self, name: str) -> None:
        """Forget a daemon."""
        with self._state.changing() as state:
            _note(state, "daemons", name, None)

    def has_limits(self, daemon: ControlDaemon) -> bool:
        """Say whether a daemon of the state file is told these limits."""
        known = self._state.read().get("sharing", {}).get("daemons", {}).get(daemon.name, {})
        return bool(known.get("commands") == list(daemon.commands))

    def daemons(self) -> Mapping[str, bool]:
        """Return the daemons of the state file; each is ready."""
        return dict.fromkeys(self._state.read().get("sharing", {}).get("daemons", {}), True)


def _note(state: State, kind: str, key: str, value: Any) -> None:
    """Write an entry, or remove it when there is no value; what is empty is left out."""
    sharing = state.setdefault("sharing", {})
    entries = sharing.setdefault(kind, {})
    entries.pop(key, None)
    if value is not None:
        entries[key] = value
    if not entries:
        del sharing[kind]
    if not sharing:
        del state["sharing"]
