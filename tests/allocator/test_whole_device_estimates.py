"""Estimates of whole-device claims: answers equal those of a search of every node."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from tests.allocator.builders import (
    GPU,
    NUMA,
    ROOT,
    A,
    amounts,
    chip,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
)

NODES = [f"n{number:02d}" for number in range(24)]
UUID = [{"cel": {"expression": f'{A}.kind != "nic" && {A}.?uuid.orValue("") != "none"'}}]

REQUESTS: Sequence[tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]] = [
    ([], ()),
    ([device_request(kind="gpu")], ()),
    ([device_request(kind="gpu", count=3)], ()),
    ([device_request(kind="big", count=2)], ()),
    ([device_request(kind="part")], ()),
    ([device_request(kind="part")], ()),
    ([device_request(selectors=[{"cel": {"expression": f'{A}.kind in ["part", "whole"]'}}])], ()),
    ([device_request(selectors=[{"cel": {"expression": f'{A}.kind in ["gpu", "big"]'}}], count=2)], ()),
    ([device_request(selectors=[{"cel": {"expression": f'{A}.kind in ["big", "nic"]'}}], count=2)], ()),
    ([device_request(selectors=UUID, count=2)], ()),
    ([device_request("g"), device_request("n", "nic")], ({"matchAttribute": ROOT},)),
    ([device_request("g", count=2), device_request("n", "nic", 2)], ({"matchAttribute": ROOT},)),
    (
        [device_request("g", count=2), device_request("n", "nic")],
        ({"matchAttribute": ROOT, "requests": ["g"]},),
    ),
    ([device_request("g", count=2), device_request("n", "big")], ({"distinctAttribute": ROOT},)),
]


def fleet(rng: random.Random) -> State:
    """Return nodes with random models, topology and numbers of devices; few are equal."""
    slices = []
    for name in NODES:
        rows = []
        kinds = rng.choice([["gpu"] * 6, ["big"] * 6, ["gpu"] * 3 + ["big"] * 3])
        for number, kind in enumerate([*kinds[: rng.randrange(3, 7)], *["nic"] * rng.randrange(4)]):
            one = device(f"d{number}", kind)
            one["attributes"] |= {
                ROOT: {"string": f"root-{rng.randrange(3)}"},
                "uuid": {"string": f"{name}-{number}"},
            }
            rows.append(one)
        slices.append(device_slice(f"{name}-whole", name, rows, pool=f"{name}-whole"))
        if rng.random() < 0.4:
            slices += cards(name, rng)
    return cluster(*slices, nodes=NODES)


def cards(node: str, rng: random.Random) -> Sequence[Slice]:
    """Return the slices of partitionable chips on random PCIe roots; parts of some chips have different roots."""
    count = rng.randrange(1, 5)
    sets = [{"name": f"chip-{number}", "counters": amounts(units=4)} for number in range(count)]
    rows = []
    for number in range(count):
        spread = rng.random() < 0.3
        root = rng.randrange(3)
        for one in chip(parts=4, number=number):
            root = rng.randrange(3) if spread else root
            one["attributes"] |= {ROOT: {"string": f"root-{root}"}, NUMA: {"int": root // 2}}
            rows.append(one)
    return (
        device_slice(f"{node}-counters", node, count=2, sharedCounters=sets),
        device_slice(f"{node}-devices", node, rows, count=2),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_answers_by_estimates_equal_a_search_of_every_node(seed: int) -> None:
    """The demand is learnt; node, devices and refusals equal those of a search without reuse."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    state = fleet(rng)
    held: list[str] = []
    for turn in range(150):
        if held and rng.random() < 0.35:
            state.release(held.pop(rng.randrange(len(held))))
        requests, constraints = rng.choice(REQUESTS)
        demand = Demand((claim("c", *requests, constraints=constraints),))
        if rng.random() < 0.3:
            for _ in precompute(state, many=rng.choice([1, 40])):
                pass
        idle = {DeviceId(GPU, f"{rng.choice(NODES)}-whole", "d0"): 1} if rng.random() < 0.2 else None
        # Up to sixteen allowed nodes are searched one by one without reuse.
        nodes = frozenset(rng.sample(NODES, rng.choice([3, 14, 16, 22]))) if rng.random() < 0.4 else None
        demand = Demand(demand.claims, nodes=nodes)
        found, searched = (
            allocate(state, demand, Terms(Strategy.LEAST_FRAGMENTATION), prefer=idle, reuse=reuse)
            for reuse in (True, False)
        )
        assert found == searched
        if isinstance(found, Refusal) or found.asked is None:
            continue
        state.learn(found.asked)
        assert isinstance(found, Decision)
        held.append(f"c{turn}")
        state.hold(held[-1], found.allocations[0].results)
