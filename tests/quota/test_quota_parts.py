"""Of pods that share claims as many start as a quota's limit leaves: which parts of their demand are asked about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.finished import finished
from apportion.cluster.client import Client
from apportion.quota.least import least
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.quota.parts import parts_within
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import cluster, quota
from tests.quota.test_limits import use_of
from tests.scheduling.queued import fleet
from tests.steps import Steps

_BOUND = {"nodeName": "n1"}


def star(count: int, bound: int = 0) -> tuple[WaitingDemand, ObservedCluster]:
    """Return pods that each name a claim of their own and one that all name; so many of them have a node."""
    world = fleet({"n1": ("h100", 8)})
    world.claim("hub")
    for number in range(count):
        world.claim(f"c{number}")
        world.pod(f"p{number}", f"c{number}", "hub", spec=_BOUND if number < bound else {})
    [demand], _ = waiting_demands(world.snapshot)
    return demand, world


@pytest.mark.slow
@given(st.integers(2, 12), st.integers(0, 14), st.integers(0, 2))
def test_of_few_pods_each_number_that_the_limit_leaves_is_asked_about(
    count: int, limit: int, bound: int
) -> None:
    """The most pods first; those that have a node are in every part."""
    demand, world = star(count, min(bound, count - 1))
    use = use_of({"name": "gpus", "deviceClass": "gpu", "limit": limit})
    parts = [*finished(parts_within(demand, use, world.snapshot, shares=False))]
    here = {pod.uid for pod in demand.pods if pod.node is not None}
    assert [len(part.pods) for part in parts] == [
        pods for pods in range(count - 1, 0, -1) if len(here) <= pods < limit
    ]
    for part in parts:
        assert here <= {pod.uid for pod in part.pods}
        assert {claim.name for claim in part.claims} == {
            "hub",
            *(claim.claim for pod in part.pods for claim in pod.claims),
        }
        assert len(part.asked) == len(part.claims)
        assert use.excess(least(part.asked, use, shares=False)) is None


def test_of_many_pods_some_numbers_are_asked_about() -> None:
    """Work grows with the pods, not with their square; with few pods each number is asked about in the end."""
    counts, found = [], list[int]()
    for count in (24, 60):
        demand, world = star(count)
        use = use_of({"name": "gpus", "deviceClass": "gpu", "limit": count - 10})
        with Steps() as counted:
            found = [
                len(part.pods) for part in finished(parts_within(demand, use, world.snapshot, shares=False))
            ]
        counts.append(counted.count)
        assert found[0] == count - 11
        assert found[-8:] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert len(found) < 30
    assert counts[1] < 7 * counts[0]


async def test_the_pods_that_a_limit_leaves_are_served_as_soon_as_there_are_devices(
    unanswered: Client,
) -> None:
    """The limit forbids all of them together, and for one the device was missing when that was found out."""
    world = cluster(0, "team")
    quota(world, "team", limit=1)
    world.claim("hub")
    world.claim("c0")
    world.pod("first", "hub")
    world.pod("second", "hub", "c0")
    cycle = world.cycle(unanswered)
    for _ in range(2):
        cycle.once()
    assert world.places() == {}
    world.slice("n1", "n1-devices", {"devices": [{"name": "gpu-0"}]}, 1)
    cycle.once()
    assert world.places() == {"hub": "n1"}


async def test_nobody_waits_behind_a_pod_that_asks_for_more_than_the_limit_leaves(unanswered: Client) -> None:
    """They share a claim, and it is the older one."""
    world = cluster(8, "team")
    quota(world, "team", limit=2)
    world.claim("hub")
    world.claim("large", request("gpu", count=3))
    for number in range(2):
        world.claim(f"c{number}")
    world.pod("a", "hub", "large")
    for number in range(2):
        world.pod(f"b{number}", "hub", f"c{number}")
    world.cycle(unanswered).once()
    assert world.places() == {"hub": "n1", "c0": "n1"}


async def test_nobody_waits_behind_a_pod_for_which_the_limit_leaves_more_than_a_node_has(
    unanswered: Client,
) -> None:
    """They share a claim, it is the older one, and together they are beyond the limit."""
    world = cluster(1, "team")
    quota(world, "team", limit=2)
    for name in ("hub", "large", "later"):
        world.claim(name)
    world.pod("a", "hub", "large")
    world.pod("b", "hub")
    world.pod("c", "hub", "later")
    world.cycle(unanswered).once()
    assert world.places() == {"hub": "n1"}
