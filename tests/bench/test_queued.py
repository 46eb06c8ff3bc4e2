"""Claims of a scenario that wait together, or are allocated one by one."""

from typing import Any

import pytest

from apportion.allocator.search.scorer import Strategy
from bench.queued import planned_together
from bench.scenariofile import build
from bench.scenariorun import run
from tests.allocator.builders import GPU, A

Raw = dict[str, Any]


def test_the_last_claims_between_two_releases_are_planned_together() -> None:
    """The last 64 of a queue; a claim that waits alone is not planned."""
    names = [f"c{number}" for number in range(70)]
    found = planned_together([*names, "", "", "alone", "", "one", "two"])
    assert found == {"c6": names[6:], "one": ["one", "two"]}


@pytest.mark.slow
@pytest.mark.parametrize(("waiting", "lost"), [(True, 0), (False, 1)])
def test_a_queued_claim_leaves_devices_for_later_ones(*, waiting: bool, lost: int) -> None:
    """One by one the first claim takes a device of the only pair the second can use. The time of the plan is charged to a claim."""
    content = {
        "name": "pairs",
        "nodes": [{"metadata": {"name": name}} for name in ("eight", "pair")],
        "classes": [{"metadata": {"name": "any"}, "spec": {"selectors": []}}],
        "slices": [slice_of("eight", "common", 8), slice_of("pair", "rare", 2)],
        "claims": [claim("a", "true", 1), claim("b", f'{A}.model == "rare"', 2)],
    }
    outcomes, figures = run(build(content), Strategy.LEAST_FRAGMENTATION, ticks=True, waiting=waiting)
    assert figures["unallocated"] == lost
    assert all(outcome.ms > 0 and outcome.cpu_ms > 0 for outcome in outcomes)


def slice_of(node: str, model: str, count: int) -> Raw:
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
