"""A cycle over a snapshot, for tests of what it decides."""

import time
from typing import Any

from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.cycle import Cycle
from testbed.cycle import build_cycle, now


def cycle_over(client: Any, snapshot: Snapshot, told: list[tuple[str, str]]) -> Cycle:
    """Return a cycle that notes in `told` whom it warned, and why."""

    class Listening(Recorder):
        def warning(self, about: Any, reason: str, text: str) -> None:
            told.append((about.name, reason))
            super().warning(about, reason, text)

    recorder = Listening(client, component="test", clock=time.monotonic, now=now)
    return build_cycle(client, snapshot, recorder)
