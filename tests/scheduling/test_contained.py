"""A defect that one demand meets is told, and the others are served."""

from structlog.testing import capture_logs

from apportion.allocator.rules.selectors import Selector
from apportion.allocator.state import State
from apportion.cel import Programs
from apportion.cluster.client import connect
from apportion.cluster.ledger import Ledger
from apportion.cluster.snapshot import Snapshot
from apportion.errors import SelectorError
from testbed.controlplane import ControlPlane
from tests.observedcluster import ObservedCluster as World
from tests.observedcluster import request
from tests.scheduling.acting import cycle_over

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
            cycle = cycle_over(client, world.snapshot, told)
            cycle.once()
            cycle.once()
    second = next(claim for claim in world.snapshot.claims.values() if claim.name == "second")
    assert world.snapshot.allocation(second) is not None
    assert [line["demand"] for line in logs if line["event"] == "demand.defect"] != []
    assert ("first", "Defect") in told
    assert ("second", "Defect") not in told
