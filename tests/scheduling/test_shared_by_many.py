"""Thousands of pods and claims of one tenant that hang together, or can never be served: work grows with them, not with their square."""

from collections.abc import Callable

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.hangingtogether import chain, star
from tests.scheduling.openedgates import opened
from tests.scheduling.queued import fleet
from tests.steps import steps

_GATED = (GATE,)
_TOO_LARGE = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1000"}}}]}


def one_pod(world: ObservedCluster, count: int) -> None:
    """One pod names all claims."""
    for number in range(count):
        world.claim(f"c{number}")
    world.pod("p", *(f"c{number}" for number in range(count)), gates=_GATED)


@pytest.mark.parametrize("make", [chain, star, one_pod])
def test_the_queue_is_made_by_work_that_grows_with_what_hangs_together(
    make: Callable[[ObservedCluster, int], None],
) -> None:
    """Also when one of its claims changes."""
    first, changed = [], []
    for count in (15, 60):
        world = fleet({"n1": ("h100", 8)})
        make(world, count)
        queue = WaitingQueue(world.snapshot)
        first.append(steps(queue.demands))
        world.claim("c7", request("gpu", count=2))
        changed.append(steps(queue.demands))
        [demand] = queue.demands()[0]
        assert len(demand.claims) >= count
    assert first[1] < 5 * first[0]
    assert changed[1] < 5 * changed[0]


@pytest.mark.slow
async def test_pods_that_a_shared_claims_node_cannot_take_are_looked_at_once_each(unanswered: Client) -> None:
    """One of them fits, so the others keep their gate; in every pass, and for the search for stalled allocations."""
    counts = []
    for count in (100, 400):
        world = fleet({"n1": ("h100", 8)})
        world.allocate(world.claim("c"), "n1", "gpu-0")
        world.pod("fits", "c", gates=_GATED)
        for number in range(count):
            world.pod(f"p{number}", "c", gates=_GATED, spec=_TOO_LARGE)
        assert [pod.name for pod in opened(Gates(world.snapshot))] == ["fits"]
        cycle = world.cycle(unanswered)
        counts.append((steps(cycle.once), steps(cycle.once)))
    assert counts[1][0] < 5 * counts[0][0]
    assert counts[1][1] < 5 * counts[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("device_class", ["unknown", "gpu"])
async def test_a_pass_does_next_to_nothing_for_pods_that_can_never_be_served(
    unanswered: Client, device_class: str
) -> None:
    """Their classes do not exist, or nobody knows their scheduler: they were told so."""
    counts = []
    for count in (50, 200):
        world = fleet({"n1": ("h100", 8)})
        for number in range(count):
            world.claim(f"c{number}", request(device_class))
            world.pod(f"p{number}", f"c{number}", gates=_GATED, spec={"schedulerName": "nobodys"})
        cycle = world.cycle(unanswered)
        for _ in range(450):
            cycle.once()
        counts.append(steps(cycle.once))
        assert ("p0" if device_class == "gpu" else "c0") in {about for about, _ in world.warned}
    # What is so is still gone through.
    assert counts[1] - counts[0] <= 3 * 150
