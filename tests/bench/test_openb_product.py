"""The replay of the openb trace through the product."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.allocator.search.scorer import Strategy
from bench.openb.figures import measure
from bench.openb.model import FreeNode, PodRequest
from bench.openb.product import CpuPods, ProductReplay
from bench.openb.trace import Node, Pod, Seed, Trace

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NODES = """sn,cpu_milli,memory_mib,gpu,model
a,32000,65536,2,A
b,32000,65536,2,B
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
half,1000,1024,1,500,
other,1000,1024,1,500,
whole,1000,1024,1,1000,B
none,1000,1024,0,0,
pair,1000,1024,2,1000,
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with two nodes and five pods."""
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_small.csv").write_text(PODS)
    return tmp_path


def lines(data: Path, *more: str) -> list[dict[str, object]]:
    """Run the command; return its lines."""
    command = [sys.executable, "-m", "bench.openb", "--data", str(data), "--trace", "small", *more]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("strategy", "cpu_pods"), [("LeastFragmentation", "advice"), ("Pack", "kube"), ("FirstFit", "advice")]
)
def test_the_product_prints_the_line_of_every_policy(data: Path, strategy: str, cpu_pods: str) -> None:
    """One line per seed, with the keys of the bound's line."""
    found = lines(data, "--strategy", strategy, "--cpu-pods", cpu_pods, "--seed", "1", "--seed", "2")
    assert [list(line) for line in found] == [["trace", "seed", "allocation", "firstDrop"]] * 2


def test_the_time_of_claims_is_added_on_request(data: Path) -> None:
    """Claims per second, and the milliseconds of a claim."""
    (line,) = lines(data, "--strategy", "LeastFragmentation", "--times", "--seed", "3")
    assert list(line)[4:] == ["claimsPerSecond", "p50Ms", "p99Ms", "maxMs"]


def test_variants_are_replayed_with_the_product_and_with_fgd(data: Path) -> None:
    """One line per variant; without a strategy the bound takes the product's place."""
    keys = ["trace", "seed", "product", "productFirstDrop", "fgd", "fgdFirstDrop", "ahead"]
    found = lines(data, "--strategy", "LeastFragmentation", "--sisters", "2")
    assert [list(line) for line in found] == [keys] * 2
    assert list(lines(data, "--sisters", "1")[0])[2] == "worth"


def test_a_pod_gets_its_share_of_a_model_that_it_accepts_or_is_dropped() -> None:
    """Two halves share a device; the third device of model A does not exist."""
    trace = Trace(
        "models",
        (Node("a", FreeNode(32_000, "A", (1000,)), 9999), Node("b", FreeNode(32_000, "B", (1000,)), 9999)),
        (
            Pod("half", PodRequest(1_000, 1, 500, frozenset("A")), 10),
            Pod("any", PodRequest(1_000, 1, 1000), 10),
        ),
    )
    replay = ProductReplay(
        trace, Seed(1, (0, 0, 0, 1, 1), (0, 1)), Strategy.LEAST_FRAGMENTATION, CpuPods.KUBE
    )
    arrivals = list(replay.run())
    assert [arrival.placed for arrival in arrivals] == [True, True, False, True, False]
    assert measure(arrivals, trace.capacity).first_drop == 75
    assert len(replay.seconds) == 5


@pytest.mark.parametrize(("cpu_pods", "placed"), [(CpuPods.KUBE, False), (CpuPods.ADVICE, True)])
def test_advice_keeps_cpu_beside_free_devices(cpu_pods: CpuPods, placed: bool) -> None:  # noqa: FBT001
    """By LeastAllocated the pod without devices goes to the larger node, where the second device then has too little cpu."""
    trace = Trace(
        "cpu",
        (Node("a", FreeNode(72_000, "A", (1000, 1000)), 9999), Node("b", FreeNode(20_000, "A", ()), 9999)),
        (Pod("gpu", PodRequest(32_000, 1, 1000), 1), Pod("cpu", PodRequest(16_000, 0, 0), 1)),
    )
    replay = ProductReplay(trace, Seed(1, (0, 1, 0), (0, 1)), Strategy.LEAST_FRAGMENTATION, cpu_pods)
    assert [arrival.placed for arrival in replay.run()] == [True, True, placed]


def test_a_pod_needs_cpu_and_memory_too() -> None:
    """Of two devices one stays free for lack of memory."""
    trace = Trace(
        "memory",
        (Node("a", FreeNode(8_000, "A", (1000, 1000)), 150),),
        (Pod("gpu", PodRequest(0, 1, 1000), 100),),
    )
    replay = ProductReplay(trace, Seed(1, (0, 0), (0,)), Strategy.PACK, CpuPods.KUBE)
    assert [arrival.placed for arrival in replay.run()] == [True, False]
