"""A quota that is edited while nodes are searched: what is granted from then on stays within its new limits."""

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster
from tests.quota.tenants import cluster, quota, wait

MEMORY = {"name": "memory", "capacity": "memory"}
MOST = 100
"""Steps of a pass here at most."""


def of_two_sizes() -> ObservedCluster:
    """Return two GPUs with 80Gi and two with 40Gi, a quota of 100Gi, and a pod for two GPUs: the first that it would get are too much, and others are searched."""
    world = cluster(0, "a")
    for number, size in enumerate((80, 80, 40, 40)):
        device = {"name": f"gpu-{number}", "capacity": {"memory": {"value": f"{size}Gi"}}}
        world.slice("n1", f"n1-{number}", {"devices": [device]}, 1, pool=f"pool-{number}")
    quota(world, "a", MEMORY | {"limit": "100Gi"})
    wait(world, "a", "a0", count=2)
    return world


async def test_nothing_is_granted_beyond_a_limit_that_is_lowered_within_a_pass(silent: Client) -> None:
    """At each of its steps in turn, as long as nothing is granted before."""
    for edited in range(MOST):
        world = of_two_sizes()
        before: dict[str, str | None] = {}
        steps = 0
        for steps, _ in enumerate(world.cycle(silent)._pass(longest=1e9, evaluates=False)):
            if steps == edited:
                before = world.places()
                quota(world, "a", MEMORY | {"limit": "0"})
        assert world.places() == before
        if before:
            break
    assert before
    assert edited > 1
