"""What is found out about claims in the limits of a quota takes a bounded part of the memory, however large they are."""

import tracemalloc

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from tests.quota.tenants import cluster, leave, quota, wait

MEBIBYTE = 2**20
SELECTORS = 64
"""As many, of 10,000 characters each, in eight requests."""


async def test_large_claims_that_are_gone_are_not_kept(unanswered: Client) -> None:
    """A tenant made them one after the other; answers about the last four thousand were kept, with all that they asked."""
    world = cluster(8, "a")
    quota(world, "a", limit=100)
    cycle = world.cycle(unanswered)
    cycle.once()
    tracemalloc.start()
    try:
        for number in range(100):
            texts = [f"{number}-{row}".ljust(10_000, "x") for row in range(SELECTORS)]
            selectors = [{"cel": {"expression": text}} for text in texts]
            requests = [
                {"name": f"r{row}", "exactly": {"deviceClassName": "gpu", "selectors": selectors[row::8]}}
                for row in range(8)
            ]
            wait(world, "a", f"c{number}", *requests)
            cycle.once()
            leave(world, "a", f"c{number}")
            del world.seen[CLAIMS, "a", f"c{number}"]
        cycle.once()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 40 * MEBIBYTE
