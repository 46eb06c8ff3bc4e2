"""A cycle over a snapshot, with neither lease nor watches: for whoever wants to see what one pass decides.

In: a client, a snapshot, what records Events, a clock. Out: the operator's own Cycle; call `once`.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from apportion.cel import Programs
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.partitions.controller import PartitionController
from apportion.scheduling.backgroundwrites import BackgroundWrites
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.writer import Writer
from apportion.settings import CycleSettings

MANAGER = "apportion-operator"


def now() -> datetime:
    """Return the time that objects bear."""
    return datetime.now(UTC)


def cycle_over(
    client: Any, snapshot: Snapshot, recorder: Recorder, clock: Callable[[], float] = time.monotonic
) -> Cycle:
    """Return a cycle that writes through the client."""
    debouncer = Debouncer(quiet=0, longest=0, clock=clock)
    writer = Writer(client, fence=lambda: None, now=now)
    partitions = PartitionController(
        client, snapshot, recorder, Programs(), fence=lambda: None, clock=clock, now=now
    )
    writes = BackgroundWrites(snapshot, writer, recorder, clock=clock, wake=debouncer.wake)
    return Cycle(
        snapshot, writes, partitions, recorder, debouncer,
        settings=CycleSettings(), clock=clock, manager=MANAGER,
    )  # fmt: skip
