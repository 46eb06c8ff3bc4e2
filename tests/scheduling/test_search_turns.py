"""A claim of a kind that nobody asked for before needs a search of many nodes; others are decided meanwhile."""

from collections.abc import Iterator
from itertools import repeat

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.candidates.searchturns import SearchStopped, SearchTurns
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.clock import Clock, Ticking
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import namespace, quota
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.reserving import on
from tests.scheduling.test_closest_in_steps import fleet_of, node

pytestmark = pytest.mark.slow

NODES = 24
PROFILES = 'device.attributes["gpu.apportion.dev"].?profile.orValue("") in ["1g.10gb", "1g.20gb"]'


def unlike(nodes: int = NODES) -> ObservedCluster:
    """Return nodes of which no two have the same partitions in use, by a clock that ticks."""
    world = fleet_of(nodes)
    world.clock = Ticking()
    for number in range(nodes):
        for place in range(number.bit_length()):
            if number >> place & 1:
                used = world.claim(f"used-{number}-{place}", request("mig"))
                world.allocate(used, f"n{number}", f"gpu-0-mig-1g10gb-19-{place}")
    return world


def passes(cycle: Cycle) -> Iterator[None]:
    """Make passes as the operator does."""
    while True:
        for work in cycle._pass(longest=LONGEST, evaluates=False):
            if work is not None:
                work()
        yield


def waits(world: ObservedCluster, name: str, *, namespace: str = "team", count: int, node: str = "") -> None:
    """Let a pod wait for so many partitions of one node."""
    world.claim(name, request("mig", count=count), namespace=namespace)
    world.pod(name, name, gates=(GATE,), namespace=namespace, spec={"affinity": on(node)} if node else {})


async def test_other_namespaces_wait_for_no_search_and_it_ends_as_if_nobody_came(unanswered: Client) -> None:
    """It goes on in later passes where it stopped."""
    alone = unlike()
    waits(alone, "large", count=8)
    alone.cycle(unanswered).once()

    world = unlike()
    steps = passes(world.cycle(unanswered))
    waits(world, "large", count=8)
    waits(world, "small", namespace="others", count=1, node="n0")
    next(steps)
    assert "small" in world.places()
    assert "large" not in world.places()
    took = 1
    while "large" not in world.places():
        next(steps)
        took += 1
        assert took < NODES
    assert world.places()["large"] == alone.places()["large"]


async def test_of_one_namespace_that_waits_for_many_each_is_served(unanswered: Client) -> None:
    """Kinds that differ in their number are searched one after the other."""
    world = unlike()
    steps = passes(world.cycle(unanswered))
    names = [f"large-{count}" for count in (6, 7, 8)]
    for name, count in zip(names, (6, 7, 8), strict=True):
        waits(world, name, count=count)
    for _ in range(4 * NODES):
        next(steps)
        if world.places().keys() >= {*names}:
            return
    raise AssertionError(world.places())


def limited(nodes: int) -> ObservedCluster:
    """Return unlike nodes, and a namespace whose quota leaves two partitions of the smaller one of two profiles."""
    world = unlike(nodes)
    world.device_class("any", PROFILES)
    namespace(world, "limited", team="limited")
    small = {"name": "small", "deviceClass": "any", "profile": "1g.10gb", "limit": 2}
    quota(world, "limited", small, team="limited")
    return world


def asks_for_more(world: ObservedCluster) -> None:
    """Let a pod wait for four partitions of a card, which would be the smaller ones."""
    world.claim("c", request("any", count=4), namespace="limited")
    world.pod("p", "c", gates=(GATE,), namespace="limited")


def profiles(world: ObservedCluster) -> set[str]:
    """Return the profiles that the pod has got."""
    claim = world.snapshot.claim("limited", "c")
    allocation = world.snapshot.allocation(claim) if claim is not None else None
    assert allocation is not None
    return {each.device.name.split("-")[3] for each in allocation.results}


async def test_no_step_grows_with_the_nodes_that_are_searched_for_what_a_quota_leaves(
    unanswered: Client,
) -> None:
    """A claim for partitions of a card gets those of another profile than it would have got."""
    longest = []
    for nodes in (12, 36):
        world = limited(nodes)
        cycle = served_before(world, unanswered)
        asks_for_more(world)
        longest.append(longest_step(cycle))
        assert profiles(world) == {"1g20gb"}
    assert longest[1] < 1.5 * longest[0], longest


async def test_what_a_quota_leaves_is_found_though_nodes_change_all_the_time(unanswered: Client) -> None:
    """At whichever step the best of them is closed, another one is taken."""
    alone = limited(6)
    asks_for_more(alone)
    alone.cycle(unanswered).once()
    best = alone.places()["c"]
    assert best is not None
    for at in range(1000):
        world = limited(6)
        asks_for_more(world)
        is_closed = False
        for step, _ in enumerate(world.cycle(unanswered)._pass(longest=1e9, evaluates=False)):
            node(world, "another", unschedulable=step % 2 == 0)
            if step == at and "c" not in world.places():
                node(world, best, unschedulable=True)
                is_closed = True
        assert profiles(world) == {"1g20gb"}
        if not is_closed:
            assert at > 12
            return
        assert world.places()["c"] != best


def searched(turns: SearchTurns, clock: Clock, key: str, steps: int, namespace: str = "team") -> bool:
    """Go on with a search of so many steps of a second each; says whether it ended."""

    def search() -> Iterator[None]:
        for _ in repeat(None, steps):
            clock.now += 1.0
            yield

    try:
        for _ in turns.steps(key, namespace, search()):
            pass
    except SearchStopped:
        return False
    return True


def test_a_walk_goes_on_with_the_search_at_which_the_former_one_stopped() -> None:
    """Who is before it in the queue had its turn; if it waits no more, the next walk begins with any."""
    clock = Clock()
    turns = SearchTurns(clock)
    turns.begin(12.5)
    assert searched(turns, clock, "first", 1)
    assert not searched(turns, clock, "second", 5)
    assert not searched(turns, clock, "third", 1)
    assert searched(turns, clock, "elsewhere", 1, namespace="others")
    assert turns.stopped == {"second", "third"}

    turns.begin(12.5)
    assert not searched(turns, clock, "first", 1)
    assert searched(turns, clock, "second", 1)
    assert searched(turns, clock, "third", 1)
    assert turns.stopped == {"first"}

    turns.begin(12.5)
    assert not searched(turns, clock, "first", 3)
    turns.begin(12.5)
    assert not searched(turns, clock, "second", 1)
    turns.begin(12.5)
    assert searched(turns, clock, "second", 1)


def test_a_walk_searches_for_no_longer_than_it_may_last_however_many_ask() -> None:
    """A namespace of its own for each demand brings no more time."""
    clock = Clock()
    turns = SearchTurns(clock)
    turns.begin(10.0)
    ended = [searched(turns, clock, f"demand-{n}", 2, namespace=f"team-{n}") for n in range(8)]
    assert clock.now == Clock().now + 10.0
    assert not any(ended[5:])
