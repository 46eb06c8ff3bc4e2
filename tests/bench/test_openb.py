"""The replay of the openb trace: FGD and BestFit meet their published figures, and the bound allocates more."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.openb.bestfit import BestFit
from bench.openb.bound.knowndemand import KnownDemand
from bench.openb.fgd import Fgd
from bench.openb.figures import Figures, measure
from bench.openb.model import FreeNode, PodRequest
from bench.openb.policy import Policy
from bench.openb.replay import Replay
from bench.openb.trace import Node, Pod, Seed, Trace, make_seed, read_seed, read_trace
from tests.shared import shared

ROOT = Path(__file__).resolve().parents[2]


def published(data: Path, policy: str, seed: int) -> dict[int, float]:
    with (data / "published_by_seed.csv").open() as lines:
        for row in csv.DictReader(lines):
            key = row["workload"], row["metric"], row["policy"], row["seed"]
            if key == ("default", "allocation", policy, str(seed)):
                return {int(at): float(value) for at, value in row.items() if at.isdigit()}
    raise KeyError(policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"), [("BestFit", lambda _: BestFit()), ("FGD", lambda trace: Fgd(trace.demand()))]
)
def test_a_reference_meets_its_published_figures(name: str, make: Callable[[Trace], Policy]) -> None:
    """Within the rounding, at every checkpoint of a seed: so the replay is right."""
    data = shared("data/openb")
    trace = read_trace(data, "default")
    figures = measure(Replay(trace, read_seed(data, trace, 45), make(trace)).run(), trace.capacity)
    for at, value in published(data, name, 45).items():
        assert figures.allocation[at] == pytest.approx(value, abs=0.01), at


@pytest.mark.slow
@pytest.mark.parametrize("ties", ["rank", "random"])
def test_the_bound_allocates_more_than_any_published_policy(ties: str) -> None:
    """One seed of ten; the first pod is not dropped early to get there."""
    data = shared("data/openb")
    command = [sys.executable, "-m", "bench.openb", "--data", data, "--seed", "43", "--ties", ties]
    line = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
    assert list(line) == ["trace", "seed", "allocation", "firstDrop"]
    assert (line["trace"], line["seed"]) == ("default", 43)
    assert line["allocation"]["95"] >= 94.9
    assert line["allocation"]["100"] >= 96.0
    assert line["allocation"]["130"] >= 96.1
    assert line["firstDrop"] >= 95.5


@pytest.mark.slow
def test_the_bound_allocates_no_less_than_fgd_where_pods_accept_only_some_models() -> None:
    """A made-up pod list with made-up seeds; a third of the pods accept only one model."""
    nodes = tuple(
        Node(f"n{i}", FreeNode(64_000, "AB"[i % 2], (1000,) * (8 if i % 3 else 2)), 1 << 20)
        for i in range(40)
    )
    requests = [
        PodRequest(4_000, 1, 300), PodRequest(4_000, 1, 700), PodRequest(9_000, 1, 1000), PodRequest(32_000, 4, 1000),
        PodRequest(5_000, 1, 700, frozenset("A")), PodRequest(8_000, 1, 1000, frozenset("B")), PodRequest(12_000, 0, 0),
    ]  # fmt: skip
    pods = tuple(Pod(f"p{i}", requests[i * i % len(requests)], 1024) for i in range(700))
    trace = Trace("own", nodes, pods)

    def at(figures: Figures) -> float:
        return figures.allocation[100] + figures.allocation[130]

    seeds = [make_seed(trace, number) for number in range(3)]
    reference = sum(at(measure(Replay(trace, s, Fgd(trace.demand())).run(), trace.capacity)) for s in seeds)
    empty = [node.free for node in nodes]
    ours = sum(
        at(measure(Replay(trace, s, KnownDemand(trace.demand(), empty)).run(), trace.capacity)) for s in seeds
    )
    assert ours >= reference


def test_a_pod_that_fits_somewhere_is_placed_and_one_that_does_not_is_dropped_for_good() -> None:
    """Two whole devices, three pods: the third is dropped, and the figures have the time of the first drop."""
    trace = Trace(
        "two",
        (Node("n", FreeNode(8_000, "A", (1000, 1000)), 1024),),
        (Pod("p", PodRequest(1_000, 1, 1000), 100),),
    )
    seed = Seed(1, (0, 0, 0), (0,))
    arrivals = list(Replay(trace, seed, BestFit()).run())
    assert [arrival.placed for arrival in arrivals] == [True, True, False]
    figures = measure(arrivals, trace.capacity)
    assert figures.first_drop == 150
    assert figures.allocation == {50: 50, 100: 100, 150: 100}


def test_memory_counts_too() -> None:
    """A node without memory holds nothing more, however many devices it has."""
    trace = Trace(
        "memory",
        (Node("n", FreeNode(8_000, "A", (1000, 1000)), 150),),
        (Pod("p", PodRequest(0, 1, 1000), 100),),
    )
    placed = [arrival.placed for arrival in Replay(trace, Seed(1, (0, 0), (0,)), BestFit()).run()]
    assert placed == [True, False]


def test_a_made_seed_asks_for_no_more_than_the_rules_allow() -> None:
    """Every pod of the list once, then drawn pods until 130 % of the capacity is requested."""
    pods = tuple(Pod(f"p{i}", PodRequest(1_000, 1, 500), 1) for i in range(10))
    trace = Trace("made", (Node("n", FreeNode(8_000, "A", (1000,) * 8), 99),), pods)
    seed = make_seed(trace, 3)
    assert set(seed.arrivals) == set(range(10))
    assert len(seed.arrivals) == 20  # 20 * 500 <= 1.3 * 8000 < 21 * 500
    assert make_seed(trace, 3) == seed
    assert make_seed(trace, 4) != seed


@pytest.mark.slow
def test_a_folder_without_the_data_is_named(tmp_path: Path) -> None:
    """One line and exit status 2."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.openb", "--data", tmp_path], check=False, capture_output=True, cwd=ROOT
    )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        f"error: {tmp_path}: openb_node_list_gpu_node.csv: No such file or directory"
    ]
