"""Who gets something else than the plan of the last of the queue says: the plan is dropped, and nobody is given the same device."""

from collections import Counter

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.queued import MODEL, fleet
from tests.scheduling.reserving import Reserving


def given(world: ObservedCluster) -> Counter[str]:
    """Return the devices of all decisions, by name."""
    snapshot = world.snapshot
    allocations = [snapshot.allocation(claim) for claim in snapshot.claims.values()]
    return Counter(result.device.name for found in allocations if found for result in found.results)


async def test_who_gets_reserved_devices_and_one_that_another_was_promised_breaks_the_plan(
    unanswered: Client,
) -> None:
    """The plan refuses it, because it knows nothing of what is reserved."""
    made = Reserving(unanswered, {"n1": 0})
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}}
        for number, model in enumerate(("old", "old", "new"))
    ]
    made.world.slice("n1", "n1-devices", {"devices": devices}, 1)
    old, new = (request("gpu", name=model, expression=f'{MODEL} == "{model}"') for model in ("old", "new"))
    made.starts("runs", wanted=[old])
    made.comes("head", wanted=[request("gpu", expression=f'{MODEL} == "old"', count=2)])
    assert made.passes() == []
    assert made.reserved.keys() == {"head"}
    made.comes("both", priority=10, wanted=[old, new])
    made.comes("late", wanted=[new])
    assert made.passes() == ["both"]
    assert given(made.world) == Counter(["gpu-0", "gpu-1", "gpu-2"])


async def test_as_many_pods_of_a_claim_as_fit_break_the_plan(unanswered: Client) -> None:
    """No node takes all of them, so that the plan gives others what some of them get."""
    world = fleet({"n1": ("h100", 1)})
    world.node("n1", cpu="4")
    world.claim("shared")
    for number in range(5):
        world.pod(f"p{number}", "shared")
    for name in ("small-0", "small-1"):
        world.wait_for(name, request("gpu"), spec={"containers": [{"name": "main"}]})
    world.cycle(unanswered).once()
    assert given(world) == Counter(["gpu-0"])
    assert world.places() == {"shared": "n1"}
