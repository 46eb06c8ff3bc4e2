"""Nodes are compared without choosing devices where that tells as much; nobody can tell by the answers."""

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
from tests.allocator.builders import GPU, A, amounts, chip, claim, cluster, device, piece, want

NODES = [f"n{number:02d}" for number in range(24)]
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
UUID = [{"cel": {"expression": f'{A}.kind != "nic" && {A}.?uuid.orValue("") != "none"'}}]

ASKS: Sequence[tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]] = [
    ([], ()),
    ([want(kind="gpu")], ()),
    ([want(kind="gpu", count=3)], ()),
    ([want(kind="big", count=2)], ()),
    ([want(kind="part")], ()),
    ([want(kind="part")], ()),
    ([want(selectors=[{"cel": {"expression": f'{A}.kind in ["part", "whole"]'}}])], ()),
    ([want(selectors=[{"cel": {"expression": f'{A}.kind in ["gpu", "big"]'}}], count=2)], ()),
    ([want(selectors=[{"cel": {"expression": f'{A}.kind in ["big", "nic"]'}}], count=2)], ()),
    ([want(selectors=UUID, count=2)], ()),
    ([want("g"), want("n", "nic")], ({"matchAttribute": ROOT},)),
    ([want("g", count=2), want("n", "nic", 2)], ({"matchAttribute": ROOT},)),
    ([want("g", count=2), want("n", "nic")], ({"matchAttribute": ROOT, "requests": ["g"]},)),
    ([want("g", count=2), want("n", "big")], ({"distinctAttribute": ROOT},)),
]


def fleet(rng: random.Random) -> State:
    """Return nodes of which hardly two are alike: models, places and numbers of devices are drawn."""
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
        slices.append(piece(f"{name}-whole", name, rows, pool=f"{name}-whole"))
        if rng.random() < 0.4:
            slices += cards(name, rng)
    return cluster(*slices, nodes=NODES)


def cards(node: str, rng: random.Random) -> Sequence[Slice]:
    """Return the slices of partitionable chips in drawn places; the parts of some chips lie far from each other."""
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
        piece(f"{node}-counters", node, count=2, sharedCounters=sets),
        piece(f"{node}-devices", node, rows, count=2),
    )


@pytest.mark.parametrize("seed", range(8))
def test_claims_come_and_go_as_if_every_node_had_been_searched(seed: int) -> None:
    """Under a demand that is learnt; the same node and devices, and the same refusals, as with a search of all nodes."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    state = fleet(rng)
    held: list[str] = []
    for turn in range(150):
        if held and rng.random() < 0.35:
            state.release(held.pop(rng.randrange(len(held))))
        requests, rules = rng.choice(ASKS)
        demand = Demand((claim("c", *requests, constraints=rules),))
        if rng.random() < 0.3:
            precompute(state, many=rng.choice([1, 40]))
        idle = {DeviceId(GPU, f"{rng.choice(NODES)}-whole", "d0"): 1} if rng.random() < 0.2 else None
        # Up to sixteen are searched one by one where nothing is remembered.
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
