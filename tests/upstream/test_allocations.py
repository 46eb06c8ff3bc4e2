"""The allocator compared with kube-scheduler's, on random worlds.

Left out is one known and intended difference: a request for all devices that breaks a constraint is a fatal error upstream,
even where counting has shown before that there is no solution, or where another alternative would do.
"""

import pytest

from apportion.allocator.search.scorer import Strategy
from tests.allocator.conformance import answer, differences
from tests.upstream.oracle import Json, Oracle
from tests.upstream.randomworlds import random_world

pytestmark = pytest.mark.slow

WORLDS = 1500
_KNOWN_DIFFERENCE = "because a claim constraint would not be satisfied"


def _worlds(**features: bool) -> list[Json]:
    worlds = [random_world(seed, lists=seed % 2 == 1) for seed in range(WORLDS)]
    return [world | {"features": world["features"] | features} for world in worlds]


@pytest.mark.parametrize("partitionable", [True, False])
def test_first_fit_chooses_what_upstream_chooses(oracle: Oracle, *, partitionable: bool) -> None:
    """Verdict, devices, capacity, config and node selector; no solution and errors alike."""
    worlds = _worlds(PartitionableDevices=partitionable)
    wrong, solved = {}, 0
    for seed, (world, expected) in enumerate(zip(worlds, oracle.ask(worlds), strict=True)):
        if _KNOWN_DIFFERENCE in (expected.get("error") or {}).get("text", ""):
            continue
        found = answer(world, Strategy.FIRST_FIT)
        solved += found["kind"] == "results"
        unequal = differences({"expect": expected, "exactOrder": False}, found)
        if unequal:
            wrong[seed] = unequal
    assert wrong == {}
    assert solved > WORLDS // (5 if partitionable else 10)


@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.SPREAD, Strategy.LEAST_FRAGMENTATION])
def test_no_strategy_gives_up_where_upstream_finds_a_place(oracle: Oracle, strategy: Strategy) -> None:
    """Preferences choose among solutions; they never change whether there is one."""
    worlds = _worlds()[: WORLDS // 3]
    wrong = {}
    for seed, (world, expected) in enumerate(zip(worlds, oracle.ask(worlds), strict=True)):
        if expected["kind"] == "error":
            continue
        found = answer(world, strategy)
        if found["kind"] != expected["kind"]:
            wrong[seed] = (expected["kind"], found["kind"])
    assert wrong == {}
