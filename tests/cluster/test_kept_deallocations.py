"""A replica that does not act keeps what it has seen of deallocations, and little of each: a claim may have a megabyte of labels."""

import gc
import tracemalloc

from apportion.cluster.kinds import CLAIMS
from tests.observedcluster import ObservedCluster

MEBIBYTE = 2**20
COUNT = 60


def test_large_claims_that_are_gone_are_not_kept() -> None:
    """The last ten thousand were, as large as they had been, until the replica led."""
    world = ObservedCluster()
    tracemalloc.start()
    try:
        for number in range(COUNT):
            name = f"c{number}"
            claim = world.claim(name, labels={f"k{row}": f"{number}-{row}".ljust(60) for row in range(1000)})
            world.allocate(claim, "n1", "gpu-0")
            world.see(CLAIMS, claim | {"status": {}})
            world.gone(CLAIMS, claim)
            del world.seen[CLAIMS, "team", name], claim
        gc.collect()  # when it runs by itself depends on the tests before
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [event.claim.name for event in world.snapshot.deallocations] == [f"c{n}" for n in range(COUNT)]
    assert left < 2 * MEBIBYTE
