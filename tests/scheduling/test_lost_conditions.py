"""What autoscalers were to see of a pod, and was not written, is not written once it is true no more."""

import pytest

from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from tests.observedcluster import request
from tests.scheduling.lookingfornodes import H200, hold, said, seen, waits
from tests.scheduling.queued import fleet


@pytest.mark.parametrize("late", [False, True])
def test_a_pod_whose_condition_was_not_written_is_not_shown_once_a_node_came(*, late: bool) -> None:
    """The write has failed, or is carried out late: an autoscaler would buy a node for a pod that only waits for others."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", expression=H200))
    say = said(world)
    say()
    world.clock.now += PATIENCE
    assert say() == {"p": True}
    world.node("n2", cpu="64")
    devices = [{"name": "gpu-0", "attributes": {"model": {"string": "h200"}}}]
    world.slice("n2", "n2-devices", {"devices": devices}, 1)
    hold(world, "other", "n2", "gpu-0")
    world.clock.now += PATIENCE
    assert say() == {}
    if late:
        seen(world, "p")
        world.clock.now += PATIENCE
        assert say() == {"p": False}
        waits(world, "p", request("gpu", expression=H200))
    for _ in range(3):
        world.clock.now += PATIENCE
        assert say() == {}
