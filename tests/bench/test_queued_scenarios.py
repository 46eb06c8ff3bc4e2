"""Claims of a scenario wait together, or come one by one."""

from typing import Any

import pytest

from apportion.allocator.search.scorer import Strategy
from bench.scenario import made, run
from bench.waiting import last
from tests.allocator.builders import GPU, A

Raw = dict[str, Any]


def test_the_last_between_two_releases_are_placed_together() -> None:
    """One that waits alone is no plan."""
    names = [f"c{number}" for number in range(70)]
    found = last([*names, "", "", "alone", "", "one", "two"])
    assert found == {"c6": names[6:], "one": ["one", "two"]}


@pytest.mark.parametrize(("waiting", "lost"), [(True, 0), (False, 1)])
def test_who_waits_is_seen_by_those_before(*, waiting: bool, lost: int) -> None:
    """One by one the first claim breaks the only pair of its model, on the fuller node; the time of a plan is somebody's."""
    world = {
        "name": "pairs",
        "nodes": [{"metadata": {"name": name}} for name in ("eight", "pair")],
        "classes": [{"metadata": {"name": "any"}, "spec": {"selectors": []}}],
        "slices": [piece("eight", "common", 8), piece("pair", "rare", 2)],
        "claims": [claim("a", "true", 1), claim("b", f'{A}.model == "rare"', 2)],
    }
    outcomes, figures = run(made(world), Strategy.LEAST_FRAGMENTATION, ticks=True, waiting=waiting)
    assert figures["unallocated"] == lost
    assert all(outcome.ms > 0 and outcome.cpu_ms > 0 for outcome in outcomes)


def piece(node: str, model: str, count: int) -> Raw:
    """Return a slice with so many devices of a model."""
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}} for number in range(count)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": node, "uid": node},
        "spec": {"driver": GPU, "nodeName": node, "pool": pool, "devices": devices},
    }


def claim(name: str, expression: str, count: int) -> Raw:
    """Return a claim for devices that pass a selector."""
    exactly = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }
    requests = [{"name": "gpu", "exactly": exactly}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": requests}},
    }
