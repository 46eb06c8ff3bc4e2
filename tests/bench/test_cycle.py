"""`python -m bench.cycle`."""

from pathlib import Path

import pytest

from tests.bench.running import program
from tests.shared import shared

pytestmark = pytest.mark.slow


def test_a_pass_serves_the_waiting_pods(tmp_path: Path) -> None:
    """Eight nodes: one waiting pod, and all remaining pods as far as the nodes have devices."""
    folder = str(shared("peer").parent)
    done = program("bench.cycle", "--size", "8", XDG_CACHE_HOME=str(tmp_path), APPORTION_SHARED=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:3] for line in done.stdout.splitlines() if line.startswith("│")]
    counts = [tuple(map(int, row)) for row in rows]
    assert counts[0] == (1, 1)
    assert 1 < counts[-1][1] <= counts[-1][0]


def test_quotas_that_leave_room_serve_the_same_pods(tmp_path: Path) -> None:
    """Each namespace has one, half of them in a cohort; nobody meets a limit."""
    environment = {"XDG_CACHE_HOME": str(tmp_path), "APPORTION_SHARED": str(shared("peer").parent)}
    served = []
    for options in ((), ("--quotas",)):
        done = program("bench.cycle", "--size", "8", "--tenants", "2", *options, **environment)
        assert done.returncode == 0, done.stderr
        served.append([line.split("│")[1:3] for line in done.stdout.splitlines() if line.startswith("│")])
    assert served[0] == served[1]


def test_passes_with_reservations_and_quotas_are_compared_with_those_without() -> None:
    """A row for each place where the pod was that ended, with the ratio of both figures."""
    done = program("bench.cycle", "--reservations", "--quotas", "--size", "16")
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:5] for line in done.stdout.splitlines() if line.startswith("│")]
    assert [row[0].strip() for row in rows] == [
        "a reserved node, start known",
        "a reserved node, start not known",
        "another node",
    ]
    for _, *figures in rows:
        without, having, ratio = map(float, figures)
        assert ratio == pytest.approx(having / without, rel=0.1)


def test_a_cluster_that_is_too_small_for_reservations_is_refused() -> None:
    """The message names the option and the least number."""
    done = program("bench.cycle", "--reservations", "--size", "8")
    assert done.returncode == 2
    assert "--size 8: expected tiny, small, large, or at least 16 nodes" in done.stderr


def test_an_unknown_size_is_refused() -> None:
    """The message names it; there is no traceback."""
    done = program("bench.cycle", "--size", "huge")
    assert done.returncode == 2
    assert "huge" in done.stderr
    assert "Traceback" not in done.stderr
