"""Selectors of one claim of which each costs little: there may be thousands."""

from apportion.cel.program import Program
from apportion.cluster.client import Client
from tests.observedcluster import GPU, ObservedCluster
from tests.steps import Steps


async def test_they_are_evaluated_beside_the_passes(unanswered: Client) -> None:
    """Each costs little, and there may be thousands of them, on as many devices as there are in all kinds of nodes."""
    world = ObservedCluster()
    world.device_class("gpu")
    for number in range(5):
        world.node(f"n{number}", cpu="64")
        rows = [{"name": "gpu-0", "attributes": {"ix": {"int": number}}}]
        world.slice(f"n{number}", f"n{number}-devices", {"devices": rows}, 1)
    cycle = world.cycle(unanswered)
    cycle.once()
    alternatives = [
        {
            "name": f"a{number}",
            "deviceClassName": "gpu",
            "selectors": [
                {"cel": {"expression": f'device.attributes["{GPU}"].ix >= 3 && {8 * number + each} > -1'}}
                for each in range(8)
            ],
        }
        for number in range(2)
    ]
    world.wait_for("many", {"name": "one", "firstAvailable": alternatives})
    with Steps(only=Program.match) as evaluated:
        for _ in cycle._pass(longest=1e9, evaluates=False):
            pass
    assert evaluated.count == 0
    cycle.once()
    assert world.places()["many"] in {"n3", "n4"}
