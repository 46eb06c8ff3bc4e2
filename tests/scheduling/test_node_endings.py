"""In which order pods of which nobody knows the end are taken to end: those first that free the most."""

from apportion.scheduling.backfill.nodeendings import NodeEndings
from tests.observedcluster import ObservedCluster, request


def test_the_fewest_endings_free_the_most_devices() -> None:
    """Who has several devices comes first; who shares one comes last, with those that share the same one."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.slice("n1", "n1-gpus", {"devices": [{"name": f"gpu-{number}"} for number in range(6)]}, 1)
    held = {"a": (0,), "b": (1,), "c": (0,), "d": (1,), "e": (2,), "f": (3, 4, 5), "g": (1,)}
    for name, devices in held.items():
        claim = world.claim(name, request("gpu", count=len(devices)))
        world.allocate(claim, "n1", *(f"gpu-{number}" for number in devices))
        world.pod(name, name, spec={"nodeName": "n1"})
    endings = NodeEndings(world.snapshot)
    endings.follow()
    keys = [key for ending in endings.of("n1", world.seconds()).devices for key, _ in ending.held]
    claims = world.snapshot.claims
    assert "".join(claims[key].name for key in keys) == "feacbdg"
