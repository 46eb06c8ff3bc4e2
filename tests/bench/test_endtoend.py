"""`python -m bench.endtoend`."""

from typing import Any

import orjson
import pytest

from testbed.binaries import Binaries
from tests.bench.running import program


def run(*options: object) -> list[dict[str, Any]]:
    """Return the JSON lines of one call."""
    done = program("bench.endtoend", *options)
    assert done.returncode == 0, done.stderr
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def test_both_bind_every_pod_and_every_figure_is_there(binaries: Binaries) -> None:
    """Two nodes, MIG: ours writes a Partition per pod, which is answered; kube-scheduler binds to the same slices without us."""
    ours, theirs = run("--nodes", 2, "--pods", 8, "--devices", "mig", "--warm", 0, "--limit", 90)
    for one in (ours, theirs):
        assert one["bound"] == one["allocated"] == one["created"] == 8
        assert one["slices"] == 2 * 9
        assert one["boundPerSecond"] > 0
        assert 0 < one["createdToAllocatedMs"]["p50"] <= one["createdToBoundMs"]["p99"]
        assert one["cpuSeconds"]["kube-apiserver"] > 0
    assert [ours["who"], theirs["who"]] == ["ours", "stock"]
    assert ours["operatorStarts"] == 1
    assert ours["cpuMsPerPod"]["operator"] > 0
    # The control plane's processes are children of the benchmark, and not counted twice.
    assert 0 < ours["cpuSeconds"].pop("bench") < sum(ours["cpuSeconds"].values())
    assert ours["requests"]["operator"]["create partitions"] == 8
    assert ours["requests"]["agents"]["patch partitions/status"] == 8, "one for each cut"
    assert "operator" not in theirs["cpuSeconds"]
    assert theirs["requests"]["kube-scheduler"]["update resourceclaims/status"] >= 8
    assert theirs["requestsPerPod"].keys() >= {"kube-scheduler", "kube-controller-manager", "bench"}


def test_pods_that_leave_make_room_for_the_next_at_a_steady_rate(binaries: Binaries) -> None:
    """Sixty pods for eight GPUs that seven share each: the last four are bound to shares of pods that were deleted."""
    [ours] = run(
        *("--nodes", 1, "--pods", 60, "--devices", "share", "--rate", 15, "--stay", 0.1),
        *("--who", "ours", "--limit", 90),
    )
    assert ours["bound"] == 60
    assert ours["createdPerSecond"] < 20
    assert ours["requests"]["bench"]["delete pods"] > 0


def test_a_run_ends_at_its_limit(binaries: Binaries) -> None:
    """Pods that nobody can bind are counted, and end nothing: a limit of one second is over before all are bound."""
    [theirs] = run("--nodes", 1, "--pods", 8, "--rate", 2, "--who", "stock", "--warm", 0, "--limit", 1)
    assert theirs["bound"] < theirs["pods"] == 8


@pytest.mark.slow
def test_more_pods_than_fit_are_refused() -> None:
    """Before anything is started; the message names option and number."""
    done = program("bench.endtoend", "--nodes", 1, "--pods", 9)
    assert done.returncode == 2
    assert "--pods 9: 1 nodes take 8" in " ".join(done.stderr.split())
