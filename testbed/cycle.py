"""A cycle over a snapshot, with neither lease nor watches: for whoever wants to see what one pass decides.

In: a client, a snapshot, what records Events. Out: the operator's own Cycle; call `once`.
"""

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

MANAGER = "apportion-operator"


def now() -> datetime:
    """Return the time that objects bear."""
    return datetime.now(UTC)


def cycle_over(client: Any, snapshot: Snapshot, recorder: Recorder) -> Cycle:
    """Return a cycle that writes through the client."""
    clock = time.monotonic
    window = Window(quiet=0, longest=0, clock=clock)
    writer = Writer(client, fence=lambda: None, now=now)
    partitions = Controller(client, snapshot, recorder, Programs(), fence=lambda: None, clock=clock, now=now)
    errands = Errands(snapshot, writer, recorder, clock=clock, ring=window.ring)
    return Cycle(
        snapshot, errands, partitions, recorder, window,
        settings=CycleSettings(), clock=clock, manager=MANAGER,
    )  # fmt: skip
