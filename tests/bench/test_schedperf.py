"""`python -m bench.schedperf`."""

import shutil
from pathlib import Path

import orjson
import pytest

from bench.schedperf.cases import choose, workloads
from bench.schedperf.program import Program
from bench.schedperf.results import result
from testbed.binaries import Binaries
from tests.bench.running import program
from tests.shared import shared


def suite(root: Path) -> Path:
    """Write a small Kubernetes source with two cases; returns its root."""
    folder = root / "test/integration/scheduler_perf/dra/some"
    folder.mkdir(parents=True)
    (folder / "some_test.go").write_text('structured.EnableAllocators("experimental")')
    (folder / "performance-config.yaml").write_text(
        """
- name: ExtendedResource
  workloadTemplate: [{opcode: createPods, countParam: $measurePods}]
  workloads: [{name: fast, params: {measurePods: 10}}]
- name: Partitionable
  workloadTemplate: [{opcode: createPods, countParam: $measurePods}]
  workloads: [{name: fast, params: {measurePods: 10}}, {name: empty_100nodes, params: {initClaims: 0}}]
"""
    )
    return root


def test_workloads_are_read_from_upstreams_files(tmp_path: Path) -> None:
    """Suite, allocator, and whether each can be run and be served are known; a pattern chooses."""
    found = workloads(suite(tmp_path))
    assert [(each.title, bool(each.unserved), bool(each.broken)) for each in found] == [
        ("ExtendedResource/fast", True, False),
        ("Partitionable/fast", False, False),
        ("Partitionable/empty_100nodes", False, True),
    ]
    assert {(each.suite, each.allocator) for each in found} == {("dra/some", "experimental")}
    assert [each.title for each in choose(found, ["*/fast", "Partitionable/*"])] == [
        each.title for each in found
    ]


def test_the_measured_window_is_charged_to_who_computed_in_it(tmp_path: Path) -> None:
    """The .dat file's last row and time say which samples count; the rest is the CPU time of all other processes."""
    measured = [
        ("SchedulingThroughput", {"Average": 20.0, "Perc50": 19.0}),
        ("SchedulingDuration", {"Duration": 3.5}),
    ]
    items = [{"data": data, "unit": "", "labels": {"Metric": name}} for name, data in measured]
    (tmp_path / "a.json").write_bytes(orjson.dumps({"dataItems": items}))
    progress = tmp_path / "a.dat"
    progress.write_text("1.0s 0 0 10\n3.0s 0 0 50\n")
    until = progress.stat().st_mtime
    rows = [(-20, 1, 0, 9, 1), (-4, 10, 2, 20, 1), (0, 14, 3, 30, 2), (9, 90, 90, 900, 9)]
    lines = [f"{until + at},{','.join(map(str, rest))}" for at, *rest in rows]
    (tmp_path / "a.cpu.csv").write_text("\n".join(["time,test,operator,machine,load1", *lines]))
    found = result(tmp_path)
    assert (found.average, found.duration, found.pods, round(found.seconds)) == (20.0, 3.5, 50, 4)
    assert found.cpu == {"test": 4.0, "operator": 1.0, "others": 5.0}
    assert found.cpu_ms_per_pod == 1000 * 5 / 50
    assert found.load == (1.0, 2.0)


@pytest.mark.slow
def test_without_its_source_the_message_says_what_to_set(tmp_path: Path) -> None:
    """There is no traceback."""
    done = program("bench.schedperf", "--list", APPORTION_SHARED=str(tmp_path))
    assert done.returncode == 2
    assert "APPORTION_SHARED" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_smallest_case_runs_in_turns(binaries: Binaries, tmp_path: Path) -> None:
    """Both serve upstream's `fast` workload; the operator has computed in our run only."""
    folder = shared("schedperf").parent
    if shutil.which("go") is None:
        pytest.skip("scheduler_perf is written in Go and there is no `go` on the PATH")
    if not Program.path().exists():
        pytest.skip(
            "scheduler_perf is not built on this machine: `make bench-schedperf ARGS=--list` builds it"
        )
    done = program(
        *("bench.schedperf", "--case", "SchedulingWithResourceClaimTemplate/fast", "--out", tmp_path),
        APPORTION_SHARED=str(folder),
    )
    assert done.returncode == 0, done.stderr
    rows = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert [row["who"] for row in rows] == ["stock", "gate"]
    assert not [row for row in rows if "failed" in row], done.stdout
    assert all(row["schedulingSeconds"] > 0 for row in rows)
    [log] = tmp_path.rglob("*.operator.log")
    assert "claim.allocated" in log.read_text()
