"""A defect that one demand meets is told, and the others are served."""

import time
from datetime import UTC, datetime
from typing import Any

from structlog.testing import capture_logs

from apportion.allocator.answers import Selector
from apportion.allocator.state import State
from apportion.cel import Programs
from apportion.cluster.client import connect
from apportion.cluster.ledger import Ledger
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.cluster.window import Window
from apportion.errors import SelectorError
from apportion.partitions.controller import Controller
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.errands import Errands
from apportion.scheduling.writer import Writer
from apportion.settings import CycleSettings
from testbed.controlplane import ControlPlane
from tests.world import World, request

POISON = 'device.driver != "poison"'


class Poisoned(Programs):
    """Compiles all selectors but one, on which it breaks down."""

    def get(self, text: str) -> Selector | SelectorError:
        if text == POISON:
            raise ZeroDivisionError("a defect")
        return super().get(text)


async def test_a_defect_keeps_nobody_else_waiting(control_plane: ControlPlane) -> None:
    """The log has all of it, the claim an Event."""
    world = World()
    world.snapshot = Snapshot(State(programs=Poisoned()), Ledger(), ring=lambda: None)
    world.node("n1")
    world.card("n1")
    world.device_class("gpu")
    for name, text in (("first", POISON), ("second", "")):
        world.claim(name, request("gpu", expression=text))
        world.pod(f"pod-{name}", name)
    told: list[tuple[str, str]] = []
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        with capture_logs() as logs:
            cycle = _cycle(client, world.snapshot, told)
            cycle.once()
            cycle.once()
    second = next(claim for claim in world.snapshot.claims.values() if claim.name == "second")
    assert world.snapshot.allocation(second) is not None
    assert [line["demand"] for line in logs if line["event"] == "demand.defect"] != []
    assert ("first", "Defect") in told
    assert ("second", "Defect") not in told


def _cycle(client: Any, snapshot: Snapshot, told: list[tuple[str, str]]) -> Cycle:
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
