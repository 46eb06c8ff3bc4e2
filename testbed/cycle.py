"""Builds the operator's scheduling cycle over a snapshot, without lease and watches, for tests and benchmarks of one pass.

In: a client, a snapshot, a recorder of Events, a clock. Out: the operator's own Cycle; `once` runs a pass.
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
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.preemption.evictions import Evicting
from apportion.scheduling.preemption.evictor import Evictor
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites
from apportion.scheduling.writing.writer import Writer
from apportion.settings import CycleSettings

MANAGER = "apportion-operator"


def now() -> datetime:
    """Return the time for timestamps in objects."""
    return datetime.now(UTC)


def build_cycle(
    client: Any,
    snapshot: Snapshot,
    recorder: Recorder,
    clock: Callable[[], float] = time.monotonic,
    settings: CycleSettings | None = None,
    debouncer: Debouncer | None = None,
    seconds: Callable[[], float] = time.time,
    evictor: Evicting | None = None,
) -> Cycle:
    """Return a cycle that writes through the client; it is woken by its own writes, and by those who have the debouncer.

    `seconds`: the time since 1970, by which pods have started.
    """
    debouncer = debouncer or Debouncer(quiet=0, longest=0, clock=clock)
    writer = Writer(client, fence=lambda: None, now=now)
    partitions = PartitionController(
        client, snapshot, recorder, Programs(), fence=lambda: None, clock=clock, now=now
    )
    writes = BackgroundWrites(snapshot, writer, recorder, clock=clock, wake=debouncer.wake)
    return Cycle(
        snapshot, writes, partitions, recorder, debouncer,
        evictor=evictor or Evictor(client, fence=lambda: None),
        settings=settings or CycleSettings(), clock=clock, manager=MANAGER, now=seconds,
    )  # fmt: skip
