"""Demands with a set of allowed nodes, idle partitions and host requests: equal to a search of every node."""

import random

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, A, chips, claim, cluster, device, device_request, device_slice

NODES = [f"n{number:02d}" for number in range(14)]
"""Few enough to be searched one by one when no outcome is reused."""
GIB = 1 << 30
REQUESTS = [
    [device_request(kind="gpu")],
    [device_request(kind="gpu", count=2)],
    [device_request(kind="big", count=3)],
    [device_request(kind="part")],
    [device_request(kind="part")],
    [device_request(kind="whole")],
    [device_request(selectors=[{"cel": {"expression": f'{A}.kind in ["gpu", "big"]'}}], count=2)],
    [device_request("g", kind="gpu"), device_request("p", kind="part")],
]


def fleet() -> State:
    """Return nodes of three hardware types, several equal ones of each."""
    slices = []
    for number, name in enumerate(NODES):
        if number % 3 == 2:
            slices += chips(name, 3)
            continue
        kind = ("gpu", "big")[number % 3]
        slices.append(device_slice(f"{name}-whole", name, [device(f"d{index}", kind) for index in range(5)]))
    slices += [
        device_slice(f"{name}-more", name, [device("d9", "gpu")], pool=f"{name}-more")
        for name in NODES[2:9:3]
    ]
    return cluster(*slices, nodes=NODES)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.LEAST_FRAGMENTATION, Strategy.PACK, Strategy.SPREAD])
@pytest.mark.parametrize("short_of_cpu", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_answers_with_allowed_nodes_equal_a_search_of_every_node(
    strategy: Strategy, seed: int, *, short_of_cpu: bool
) -> None:
    """The reference searches every allowed node and reuses no outcome."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    state = fleet()
    ladder = Ladder((Rung(f"{GPU}/kind"),)) if seed % 2 else None
    held: list[str] = []
    for turn in range(120):
        if held and rng.random() < 0.4:
            state.release(held.pop(rng.randrange(len(held))))
        if short_of_cpu:
            cores = rng.choice([1, 2, 64])
            state.put_host(rng.choice(NODES), HostResources(cores * 1000, cores * GIB))
        demand = Demand(
            (claim("c", *rng.choice(REQUESTS)),),
            frozenset(rng.sample(NODES, rng.choice([5, 9, 12, 14]))),
            host=HostDemand(
                HostResources(rng.choice([100, 1000]), GIB), {rng.choice(NODES): HostResources(1000, GIB)}
            )
            if short_of_cpu
            else None,
        )
        idle = {
            DeviceId(GPU, name, f"chip-{number}-part-1"): 1
            for name in rng.sample(NODES[2::3], 2)
            for number in range(3)
        }
        # A demand without allowed nodes fills the ranking first.
        allocate(state, Demand(demand.claims), Terms(strategy, ladder=ladder))
        prefer = idle if rng.random() < 0.3 else None
        found, searched = (
            allocate(state, demand, Terms(strategy, ladder=ladder), prefer=prefer, reuse=reuse)
            for reuse in (True, False)
        )
        assert found == searched
        if isinstance(found, Refusal) or found.asked is None:
            continue
        state.learn(found.asked, demand.host.requested if demand.host is not None else None)
        assert isinstance(found, Decision)
        held.append(f"c{turn}")
        state.hold(held[-1], found.allocations[0].results)
