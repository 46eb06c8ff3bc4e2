"""Example: what its file expects, compared with what there is."""

from pathlib import Path
from typing import Any, cast

import pytest

from testbed.example import Example, View
from testbed.installation import Installation

EXPECTED = {
    "alike": ["a", "b"],
    "pods": {"a": {}, "b": {"phase": "Pending"}},
    "devices": {"a/gpu": [{"type": "gpu"}], "b/gpu": []},
    "events": {"b": ["waits"]},
}


@pytest.mark.parametrize(
    ("running", "waiting", "left"),
    [
        ("a", "b", []),
        ("b", "a", []),
        ("", "a", ["pod b is Pending", "claim b/gpu has 0 devices, not 1"]),
    ],
    ids=["as written", "the other way round", "neither runs"],
)
def test_of_pods_that_are_alike_either_one_may_run(running: str, waiting: str, left: list[str]) -> None:
    """All that is expected of a pod goes with its name: phase, devices, Events."""
    example = Example("pair", Path("pair.yaml"), "A pair", (), EXPECTED)
    assert example.differences(_view(running, waiting)) == left


def _view(running: str, waiting: str) -> View:
    pods = {name: _pod(name, "Running" if name == running else "Pending") for name in "ab"}
    claims = {f"{name}-gpu": _claim(f"{name}-gpu", has=name == running) for name in "ab"}
    devices = {("d", "n", "gpu-0"): {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}}
    events = {waiting: ["it waits"]}
    # No environment is expected, so that nobody asks a kubelet.
    return View(cast("Installation", None), ("x",), pods, claims, devices, (), frozenset(), events, {})


def _pod(name: str, phase: str) -> dict[str, Any]:
    statuses = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    return {"metadata": {"name": name}, "status": {"phase": phase, "resourceClaimStatuses": statuses}}


def _claim(name: str, *, has: bool) -> dict[str, Any]:
    results = [{"driver": "d", "pool": "n", "device": "gpu-0"}] if has else []
    return {"metadata": {"name": name}, "status": {"allocation": {"devices": {"results": results}}}}
