"""What the cycle learns of layouts before it decides."""

from apportion.cel import Programs
from apportion.cluster.client import Client
from apportion.dra.device import DeviceId
from apportion.partitions.controller import PartitionController
from testbed.cycle import now
from tests.observedcluster import GPU
from tests.partitions.layoutworld import cards


async def test_reserving_says_whether_anything_changed_since_the_last_plan(unanswered: Client) -> None:
    """A change wakes the task that writes; a pass in which nothing changed does not."""
    world = cards()
    world.layout({"profile": "3g.40gb", "placements": [{"start": 4}]})
    controller = PartitionController(
        unanswered,
        world.snapshot,
        world.recorder(unanswered),
        Programs(),
        fence=lambda: None,
        clock=world.clock,
        now=now,
    )
    assert controller.reserve()
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0-mig-3g40gb-9-4")) != ()
    assert not controller.reserve()
    world.node("n2")
    assert controller.reserve()
