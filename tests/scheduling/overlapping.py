"""Two allocations of one device."""

from tests.observedcluster import ObservedCluster

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
RESERVED = [{"resource": "pods", "name": "p", "uid": "u"}]


def world_with(first: dict[str, object], second: dict[str, object]) -> ObservedCluster:
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    for name, status in (("first", first), ("second", second)):
        world.allocate(world.claim(name), "n1", "gpu-0", **status)  # type: ignore[arg-type]
    return world
