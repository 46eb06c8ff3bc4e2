"""The live state of simulated hardware: one JSON file, changed under a lock, replaced in one step.

In: a path. Out: the decoded state. It stands for what a driver keeps in the card: it survives a SIGKILL of the agent,
two processes see the same, and a test reads or bends it while the agent runs.

Layout: `partitions` (list of card, profile, start, size, uuid, instance, complete, inUse, foreign), `faults` (as in the
simulation file), `next` (the next instance id), `sharing` (`simulated/sharing.py`; absent while nothing is set up).
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

State = dict[str, Any]


class StateFile:
    """The state file of one simulated node."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> State:
        """Return the state as it is now; no lock is needed, because a replacement is one step."""
        state: State = json.loads(self.path.read_text(encoding="utf-8"))
        return state

    @property
    def exists(self) -> bool:
        """Whether this node was ever switched on."""
        return self.path.exists()

    @contextmanager
    def changing(self) -> Iterator[State]:
        """Yield the state for changes, and write it back unless the block raises. Locks out other processes."""
        with self._locked():
            state = self.read() if self.exists else {"partitions": [], "faults": {}, "next": 1}
            before = json.dumps(state)
            yield state
            if not self.exists or json.dumps(state) != before:
                fresh = self.path.with_suffix(".new")
                fresh.write_text(json.dumps(state, indent=1), encoding="utf-8")
                fresh.replace(self.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The lock dies with the process: a killed agent leaves none behind.
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
