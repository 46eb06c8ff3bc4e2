"""Builds the operator's scheduling cycle over a snapshot, without lease and watches, for tests and benchmarks of one pass.

In: a client, a snapshot, a recorder of Events. Out: the operator's own Cycle; `once` runs a pass.
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
    """Return the time for timestamps in objects."""
    return datetime.now(UTC)


def build_cycle(client: Any, snapshot: Snapshot, recorder: Recorder) -> Cycle:
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
