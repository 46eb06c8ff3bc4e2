"""`python -m bench.defrag` and the baselines that it compares with."""

from pathlib import Path

import orjson
import pytest

from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from bench.defragbaselines import Card, Cluster, Layout, by_metric, by_vacating
from tests.allocator.publishednode import PublishedNode, state_of
from tests.bench.running import program
from tests.shared import shared

NODE = {"cards": [{"model": "H100-80GB", "count": 3}]}


def cluster(*devices: str) -> Cluster:
    """Return a node with three cards, and claims that have these devices of it."""
    state = state_of(PublishedNode(NODE))
    held = {name: DeviceId("gpu.apportion.dev", "n1", name) for name in devices}
    for name, device in held.items():
        state.hold(name, (DeviceResult("r", device),))
    return Cluster(state, held)


def on_card(found: Cluster, number: int) -> int:
    return len(found.by_card()[Card("n1", number)])


def test_the_metric_is_the_size_of_the_placements_that_are_blocked() -> None:
    """By hand: 4 slices in 2 placements of one half, 1 in 4 of a quarter; with the second slice taken the first half and the first quarter are blocked."""
    layout = Layout((0b1111, 0b0011, 0b1100, 0b0001, 0b0010, 0b0100, 0b1000), 0b1111)
    assert layout.fragmentation(0b0000) == 0
    assert layout.fragmentation(0b0010) == 2 + 1
    assert layout.fragmentation(0b0110) == 2 + 2 + 1 + 1
    assert layout.fragmentation(0b1111) == 0


def test_both_baselines_empty_a_card_that_one_move_empties() -> None:
    """A small partition alone on its card goes to one that has others, at most once."""
    for run in (by_metric, by_vacating):
        found = cluster("gpu-0-mig-1g10gb-19-0", "gpu-1-mig-3g40gb-9-4", "gpu-1-mig-1g10gb-19-0")
        assert found.free() == 1
        run(found, 1)
        assert (found.free(), found.moves, on_card(found, 1)) == (2, 1, 3)


def test_a_card_is_vacated_as_a_whole_or_not_at_all() -> None:
    """Two moves are more than one: nothing moves."""
    found = cluster("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1", "gpu-1-mig-7g80gb-0-0")
    by_vacating(found, 1)
    assert found.moves == 0


@pytest.mark.slow
def test_the_planner_frees_at_least_as_many_cards_per_move_as_the_baselines(tmp_path: Path) -> None:
    """On a churned cluster of 100 nodes, with equal budgets, judged by the state after its moves."""
    shared("peer/scenarios.py")
    file = tmp_path / "figures"
    done = program("bench.defrag", "--seeds", "1", "--budget", "50", "--budget", "150", "--json", file)
    assert done.returncode == 0, done.stderr
    rows = orjson.loads(file.read_bytes())
    by = {(row["budget"], row["by"]): row for row in rows}
    assert len(by) == 6
    for (budget, name), row in by.items():
        ours = by[budget, "the planner"]
        assert row["moves"] <= budget
        assert ours["freed"] * row["moves"] >= row["freed"] * ours["moves"], (budget, name)
        assert ours["freed"] >= row["freed"]


@pytest.mark.slow
def test_a_window_is_timed_for_each_goal(tmp_path: Path) -> None:
    """Whatever the times are: a plan is made, and the task beside it has woken in the meantime."""
    shared("peer/scenarios.py")
    file = tmp_path / "figures"
    done = program("bench.defragtimes", "--nodes", "3", "--json", file)
    assert done.returncode == 0, done.stderr
    rows = {row["goal"]: row for row in orjson.loads(file.read_bytes())}
    assert len(rows) == 3
    assert rows["8 whole cards"]["verdict"] == rows["256 whole cards"]["verdict"] == "Planned"
    assert all(row["seconds"] > 0 < row["heldMs"]["longest"] for row in rows.values())
