"""A cycle over a snapshot, for tests of what it decides."""

import time
from datetime import UTC, datetime
from typing import Any

from apportion.cel import Programs
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.window import Window
from apportion.partitions.controller import Controller
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.errands import Errands
from apportion.scheduling.writer import Writer
from apportion.settings import CycleSettings


def cycle_over(client: Any, snapshot: Snapshot, told: list[tuple[str, str]]) -> Cycle:
    """Return a cycle that notes in `told` whom it warned, and why."""

    class Listening(Recorder):
        def warning(self, about: Any, reason: str, text: str) -> None:
            told.append((about.name, reason))
            super().warning(about, reason, text)

    clock, now = time.monotonic, lambda: datetime.now(UTC)
    recorder = Listening(client, component="test", clock=clock, now=now)
    window = Window(quiet=0, longest=0, clock=clock)
    writer = Writer(client, fence=lambda: None, now=now)
    partitions = Controller(client, snapshot, recorder, Programs(), fence=lambda: None, clock=clock, now=now)
    errands = Errands(snapshot, writer, recorder, clock=clock, ring=window.ring)
    return Cycle(
        snapshot, errands, partitions, recorder, window,
        settings=CycleSettings(), clock=clock, manager="apportion-operator",
    )  # fmt: skip
