"""The cycle looks at what pods take of a node beside devices."""

import pytest

from apportion.cluster.client import connect
from testbed.controlplane import ControlPlane
from tests.scheduling.acting import cycle_over
from tests.world import World, request

WHOLE = 'device.attributes["gpu.apportion.dev"].type == "gpu"'


@pytest.mark.parametrize("poor", ["n1", "n2"])
async def test_a_pod_that_needs_little_leaves_cores_to_those_that_need_many(
    control_plane: ControlPlane, poor: str
) -> None:
    """Two pods that need many cores went to the node that has them; the third would fit beside them, too."""
    rich = "n2" if poor == "n1" else "n1"
    world = World()
    world.node(poor, cpu="8")
    world.node(rich, cpu="64")
    for node in (poor, rich):
        gpus = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(4)]
        world.slice(node, f"{node}-gpus", {"devices": gpus}, 1)
    world.device_class("gpu")

    def arrive(name: str, cpu: str) -> None:
        world.claim(name, request("gpu", expression=WHOLE))
        resources = {"requests": {"cpu": cpu}}
        world.pod(f"pod-{name}", name, spec={"containers": [{"name": "main", "resources": resources}]})

    def place(name: str) -> str | None:
        claim = world.snapshot.claim("team", name)
        found = world.snapshot.allocation(claim) if claim is not None else None
        return found.node if found is not None else None

    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        cycle = cycle_over(client, world.snapshot, [])
        for pods in ({"first": "16", "second": "16"}, {"third": "500m"}):
            for name, cpu in pods.items():
                arrive(name, cpu)
            cycle.once()
    assert [place(name) for name in ("first", "second", "third")] == [rich, rich, poor]
