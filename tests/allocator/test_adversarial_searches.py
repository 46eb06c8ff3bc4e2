"""Searches that take exponential time without pruning end within a small budget, with the right verdict."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chips, claim, cluster, device, device_request, device_slice
from tests.shared import shared

FEW = 2_000
"""Step budget: a depth-first search without pruning exceeds it from size 10 on."""
SOLVABLE = {"late-match-sat", "backtrack"}


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
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
    found = {path.stem: json.loads(path.read_text()) for path in sorted(Path(out).glob("*.json"))}
    # The first selector of a process also builds the parser.
    world = read_world(found["adversarial-count-short-04"])
    allocate(world.state, world.demand)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK, Strategy.SPREAD])
@pytest.mark.parametrize("size", [4, 6, 8, 10, 12, 16, 24, 32])
@pytest.mark.parametrize(
    "kind", ["late-match", "late-match-sat", "count-short", "counters-short", "backtrack"]
)
def test_adversarial_scenarios_get_a_proven_verdict_within_the_step_budget(
    scenarios: dict[str, Any], kind: str, size: int, strategy: Strategy
) -> None:
    """The verdict is a decision or a proven refusal, never an exhausted budget."""
    world = read_world(scenarios[f"adversarial-{kind}-{size:02d}"])

    found = allocate(world.state, world.demand, Terms(strategy), steps=FEW)
    # With a step budget of its own the state reuses no outcome: check the usual call too.
    usual = allocate(world.state, world.demand, Terms(strategy))

    assert type(usual) is type(found)

    if kind in SOLVABLE:
        assert isinstance(found, Decision)
    else:
        assert isinstance(found, Refusal)
        assert found.verdict == "none"


@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK])
def test_requests_that_exceed_shared_counters_are_refused_within_the_step_budget(strategy: Strategy) -> None:
    """Eight equal chips and one part too many: interchangeable chips are tried once, not in every order."""
    state = cluster(*chips("n1", count=8, parts=4))
    wholes = [device_request(f"w{index}", "whole") for index in range(5)]
    parts = [device_request(f"p{index}", "part") for index in range(13)]

    found = allocate(state, Demand((claim("c", *wholes, *parts),)), Terms(strategy), steps=FEW)

    assert isinstance(found, Refusal)
    assert found.verdict == "none"


def test_unconstrained_requests_before_a_constrained_pair_do_not_multiply_the_search() -> None:
    """Ten unconstrained requests precede a pair that cannot satisfy its constraint."""
    rows = [
        device(f"gpu-{index:02d}", f"k{index % 2}")
        | {"attributes": {"kind": {"string": "gpu"}, "pair": {"int": index}}}
        for index in range(16)
    ]
    state = cluster(device_slice("s", "n1", rows))
    requests = [device_request(f"r{index}") for index in range(12)]
    constraint = {"requests": ["r10", "r11"], "matchAttribute": f"{GPU}/pair"}

    found = allocate(state, Demand((claim("c", *requests, constraints=[constraint]),)), steps=FEW)

    assert isinstance(found, Refusal)
    assert found.verdict == "none"


def _row(name: str, kind: str, **values: int) -> dict[str, Any]:
    return device(name) | {
        "attributes": {"kind": {"string": kind}} | {key: {"int": value} for key, value in values.items()}
    }


def test_devices_that_differ_in_a_constrained_attribute_are_not_interchangeable() -> None:
    """The first choice fails only because of a second constraint; the device on the other NUMA node satisfies both."""
    rows = [
        _row("a0", "a", numa=0),
        _row("a1", "a", numa=1),
        _row("b0", "b", numa=0, pair=0),
        _row("b1", "b", numa=1, pair=1),
        _row("c1", "c", pair=1),
    ]
    state = cluster(device_slice("s", "n1", rows))
    constraints = [
        {"requests": ["ra", "rb"], "matchAttribute": f"{GPU}/numa"},
        {"requests": ["rb", "rc"], "matchAttribute": f"{GPU}/pair"},
    ]
    one = claim(
        "c",
        device_request("ra", "a"),
        device_request("rb", "b"),
        device_request("rc", "c"),
        constraints=constraints,
    )

    found = allocate(state, Demand((one,)), Terms(Strategy.FIRST_FIT), steps=FEW)

    assert isinstance(found, Decision)
    assert [result.device.name for result in found.allocations[0].results] == ["a1", "b1", "c1"]


def test_chips_with_different_counters_left_are_not_interchangeable() -> None:
    """A part of the unused chip makes the whole chip unavailable to the next request; a part of the used one does not."""
    state = cluster(*chips("n1", 2))
    state.hold("x", [DeviceResult("r", DeviceId(GPU, "n1", "chip-1-part-0"))])
    one = claim("c", device_request("p", "part"), device_request("w", "whole"))

    found = allocate(state, Demand((one,)), Terms(Strategy.FIRST_FIT), steps=FEW)

    assert isinstance(found, Decision)
    assert [result.device.name for result in found.allocations[0].results] == [
        "chip-1-part-1",
        "chip-0-whole",
    ]
