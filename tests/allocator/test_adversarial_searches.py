"""Searches that are exponential when done plainly end at once, with the right verdict."""

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
from tests.allocator.builders import GPU, chips, claim, cluster, device, piece, want
from tests.shared import shared

FEW = 2_000
"""Devices that the search may try; plain depth-first search tries more than that from size 10 on, and gives up."""
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
    # The first selector of a process pays for making the parser.
    world = read_world(found["adversarial-count-short-04"])
    allocate(world.state, world.demand)
    return found


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

    found = allocate(world.state, world.demand, Terms(strategy), steps=FEW)
    # A budget of its own keeps the state from answering by what it remembers: ask it that way too.
    usual = allocate(world.state, world.demand, Terms(strategy))

    assert type(usual) is type(found)

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

    found = allocate(state, Demand((claim("c", *wholes, *parts),)), Terms(strategy), steps=FEW)

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
    rule = {"requests": ["r10", "r11"], "matchAttribute": f"{GPU}/pair"}

    found = allocate(state, Demand((claim("c", *requests, constraints=[rule]),)), steps=FEW)

    assert isinstance(found, Refusal)
    assert found.verdict == "none"


def _row(name: str, kind: str, **values: int) -> dict[str, Any]:
    return device(name) | {
        "attributes": {"kind": {"string": kind}} | {key: {"int": value} for key, value in values.items()}
    }


def test_devices_that_differ_in_a_constrained_attribute_are_not_alike() -> None:
    """The first choice fails only because of a second constraint; its twin on the other numa node serves."""
    rows = [
        _row("a0", "a", numa=0),
        _row("a1", "a", numa=1),
        _row("b0", "b", numa=0, pair=0),
        _row("b1", "b", numa=1, pair=1),
        _row("c1", "c", pair=1),
    ]
    state = cluster(piece("s", "n1", rows))
    rules = [
        {"requests": ["ra", "rb"], "matchAttribute": f"{GPU}/numa"},
        {"requests": ["rb", "rc"], "matchAttribute": f"{GPU}/pair"},
    ]
    one = claim("c", want("ra", "a"), want("rb", "b"), want("rc", "c"), constraints=rules)

    found = allocate(state, Demand((one,)), Terms(Strategy.FIRST_FIT), steps=FEW)

    assert isinstance(found, Decision)
    assert [result.device.name for result in found.allocations[0].results] == ["a1", "b1", "c1"]


def test_chips_in_different_states_are_not_alike() -> None:
    """A part of the whole chip spoils it for the next request; a part of the broken one does not."""
    state = cluster(*chips("n1", 2))
    state.hold("x", [DeviceResult("r", DeviceId(GPU, "n1", "chip-1-part-0"))])
    one = claim("c", want("p", "part"), want("w", "whole"))

    found = allocate(state, Demand((one,)), Terms(Strategy.FIRST_FIT), steps=FEW)

    assert isinstance(found, Decision)
    assert [result.device.name for result in found.allocations[0].results] == [
        "chip-1-part-1",
        "chip-0-whole",
    ]
