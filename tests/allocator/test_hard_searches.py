"""Searches that are exponential when done plainly end at once, with the right verdict."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.world import read_world
from tests.allocator.builders import A, chips, claim, cluster, device, piece, want
from tests.shared import shared

LIMIT = 0.1
"""Seconds for one claim; upstream's allocator takes more than ten from size 10 on."""
SOLVABLE = {"late-match-sat", "backtrack"}


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return the adversarial scenarios by name."""
    out = tmp_path_factory.mktemp("scenarios")
    command = [
        sys.executable,
        str(shared("peer/scenarios.py")),
        "adversarial",
        "--size",
        "tiny",
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return {path.stem: json.loads(path.read_text()) for path in sorted(Path(out).glob("*.json"))}


@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK, Strategy.SPREAD])
@pytest.mark.parametrize("size", [4, 6, 8, 10, 12, 16, 24, 32])
@pytest.mark.parametrize(
    "kind", ["late-match", "late-match-sat", "count-short", "counters-short", "backtrack"]
)
def test_adversarial_scenarios_end_at_once(
    scenarios: dict[str, Any], kind: str, size: int, strategy: Strategy
) -> None:
    """Proven impossible, or solved; never given up."""
    world = read_world(scenarios[f"adversarial-{kind}-{size:02d}"])
    start = time.process_time()

    found = allocate(world.state, world.demand, strategy=strategy)

    assert time.process_time() - start < LIMIT
    if kind in SOLVABLE:
        assert isinstance(found, Decision)
    else:
        assert isinstance(found, Refusal)
        assert found.verdict == "none"


@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK])
def test_requests_that_crowd_each_other_out_through_counters_are_refused(strategy: Strategy) -> None:
    """Eight chips alike, one part too many asked for: like chips are tried once, not in every order."""
    state = cluster(*chips("n1", count=8, parts=4))
    wholes = [want(f"w{index}", "whole") for index in range(5)]
    parts = [want(f"p{index}", "part") for index in range(13)]
    start = time.process_time()

    found = allocate(state, Demand((claim("c", *wholes, *parts),)), strategy=strategy)

    assert time.process_time() - start < LIMIT
    assert isinstance(found, Refusal)
    assert found.verdict == "none"


def test_a_constraint_in_the_middle_of_free_requests_does_not_multiply_the_work() -> None:
    """Ten free requests before a pair that cannot agree."""
    rows = [
        device(f"gpu-{index:02d}", f"k{index % 2}")
        | {"attributes": {"kind": {"string": "gpu"}, "pair": {"int": index}}}
        for index in range(16)
    ]
    state = cluster(piece("s", "n1", rows))
    requests = [want(f"r{index}") for index in range(12)]
    rule = {"requests": ["r10", "r11"], "matchAttribute": f"{A[19:-2]}/pair"}
    start = time.process_time()

    found = allocate(state, Demand((claim("c", *requests, constraints=[rule]),)))

    assert time.process_time() - start < LIMIT
    assert isinstance(found, Refusal)
    assert found.verdict == "none"
