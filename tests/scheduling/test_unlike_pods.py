"""Pods that share a claim and are unlike each other: so many are decided about together as hold up nobody, and the others come after them."""

from collections.abc import Callable

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.dra.excess import MOST_POD_TERMS
from apportion.dra.nodeconstraints import against
from apportion.scheduling.demands.podneeds import is_allocated
from apportion.scheduling.demands.waiting import MOST_KINDS, MOST_LOOKS, LeftOut
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.room.hostcapacity import _NODES_AT_ONCE, HostCapacity
from apportion.scheduling.room.neighbours import Neighbours
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.openedgates import opened
from tests.scheduling.queued import fleet

NODES, PODS = 20, 60
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATED = (GATE,)


def sized(number: int) -> Json:
    """Return a pod of a size of its own."""
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": f"{number + 1}m"}}}]}


def averse(number: int, terms: int = 8) -> Json:
    """Return a pod with terms of its own, which nobody matches."""
    rows = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"{number}-{row}"}}}
        for row in range(terms)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: rows}}}


def nodes() -> ObservedCluster:
    world = fleet({f"n{number}": ("h100", 2) for number in range(NODES)})
    for number in range(NODES):
        world.node(f"n{number}", cpu="64", zone=f"z{number % 4}")
    return world


def sharing(world: ObservedCluster, make: Callable[[int], Json], count: int = PODS) -> Json:
    """Let so many pods name one claim."""
    raw = world.claim("c", request("gpu"))
    for number in range(count):
        world.pod(f"p{number}", "c", gates=GATED, spec=make(number))
    return raw


@pytest.mark.parametrize(
    ("make", "only", "most"),
    [
        (sized, against, 3 * MOST_KINDS * NODES),
        (averse, Neighbours._around, 2 * MOST_LOOKS),
        (lambda _: averse(0, MOST_POD_TERMS), Neighbours._around, 2 * MOST_POD_TERMS),
    ],
    ids=["sizes", "terms", "alike"],
)
async def test_no_step_of_a_decision_looks_at_all_of_them(
    unanswered: Client, make: Callable[[int], Json], only: Callable[..., object], most: int
) -> None:
    """By what each of them asks of nodes, or of the pods there; what equal ones ask is asked once."""
    world = nodes()
    cycle = served_before(world, unanswered)
    sharing(world, make)
    assert longest_step(cycle, only=only) <= most
    assert world.places().get("c")


@pytest.mark.parametrize(("make", "chosen"), [(sized, MOST_KINDS), (averse, MOST_LOOKS // 8)])
async def test_those_beyond_the_bound_hear_so_and_come_after_the_others(
    unanswered: Client, make: Callable[[int], Json], chosen: int
) -> None:
    """Small pods go first; the gates of all go once the claim has its device."""
    world = nodes()
    raw = sharing(world, make, count=chosen + 3)
    [demand], left = waiting_demands(world.snapshot)
    others = {each.pod.name for each in left if isinstance(each, LeftOut)}
    assert len(demand.pods) == chosen
    assert len(others) == 3
    if make is sized:
        assert others == {f"p{number}" for number in range(chosen, chosen + 3)}
    world.cycle(unanswered).once()
    assert {name for name, reason in world.warned if reason == "TooManyAtOnce"} == others
    world.allocate(raw, "n1", "gpu-0")
    assert waiting_demands(world.snapshot) == ([], [])
    assert len(opened(Gates(world.snapshot))) == chosen + 3


def test_equal_pods_are_of_one_kind() -> None:
    """Whatever their number."""
    world = nodes()
    sharing(world, lambda _: averse(0, MOST_POD_TERMS))
    [demand], left = waiting_demands(world.snapshot)
    assert (len(demand.pods), left) == (PODS, [])


@pytest.mark.slow
@pytest.mark.parametrize("work", [HostCapacity._against, is_allocated])
async def test_no_step_compares_all_sizes_with_all_nodes(
    unanswered: Client, work: Callable[..., object]
) -> None:
    """As often as it was tried how many of them fit together: 3 s in one step for 256 pods of sixteen sizes on 5,000 nodes."""
    nodes = 2 * _NODES_AT_ONCE
    world = fleet({f"n{number}": ("h100", 1) for number in range(nodes)})
    cycle = served_before(world, unanswered)
    world.claim("c", request("gpu"))
    for number in range(PODS):
        world.pod(f"p{number}", "c", gates=GATED, spec=sized(number % MOST_KINDS))
    assert longest_step(cycle, only=work) <= 8 * _NODES_AT_ONCE
    assert world.places().get("c")
