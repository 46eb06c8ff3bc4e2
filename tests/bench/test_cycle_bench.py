"""The benchmark of a pass serves whoever waits."""

from pathlib import Path

from tests.bench.test_scenario import bench
from tests.shared import shared


def test_a_pass_serves_whoever_waits(tmp_path: Path) -> None:
    """Eight nodes: a pod that waits alone, and all that are left, as far as there is room."""
    folder = str(shared("peer").parent)
    done = bench("bench.cycle", "--size", "8", XDG_CACHE_HOME=str(tmp_path), APPORTION_SHARED=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:3] for line in done.stdout.splitlines() if line.startswith("│")]
    counts = [tuple(map(int, row)) for row in rows]
    assert counts[0] == (1, 1)
    assert 1 < counts[-1][1] <= counts[-1][0]


def test_a_size_that_is_none_is_refused() -> None:
    """By name, without a trace."""
    done = bench("bench.cycle", "--size", "huge")
    assert done.returncode == 2
    assert "huge" in done.stdout
    assert "Traceback" not in done.stderr
