"""What the cycle learns of layouts before it decides."""

from apportion.cluster.client import Client
from apportion.dra.device import DeviceId
from tests.observedcluster import GPU
from tests.partitions.layoutworld import cards
from tests.partitions.manycards import controller


async def test_reserving_says_whether_anything_changed_since_the_last_plan(unanswered: Client) -> None:
    """A change wakes the task that writes; a pass in which nothing changed does not."""
    world = cards()
    world.layout({"profile": "3g.40gb", "placements": [{"start": 4}]})
    planning = controller(world, unanswered)
    assert planning.reserve()
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0-mig-3g40gb-9-4")) != ()
    assert not planning.reserve()
    world.node("n2")
    assert planning.reserve()
