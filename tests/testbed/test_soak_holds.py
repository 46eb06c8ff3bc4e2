"""What a soak says of devices that are held when nobody asks for anything."""

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.api import Json
from testbed.checker import Checker
from testbed.soak import ending
from testbed.soak.workload import Unit
from tests.testbed.violationobjects import DRIVER, NODE, WHOLE

_HOLD = {
    "metadata": {"name": "preemption-c", "uid": "h"},
    "spec": {
        "purpose": "Preemption",
        "heldFor": [{"namespace": "gone", "name": "c", "uid": "u"}],
        "devices": [{"driver": DRIVER, "pool": NODE, "device": WHOLE}],
    },
}


@pytest.mark.parametrize("holds", [[], [_HOLD]])
async def test_a_hold_that_stays_is_left(monkeypatch: pytest.MonkeyPatch, holds: list[Json]) -> None:
    async def items(path: str) -> tuple[list[Json], str]:
        return (holds if path.endswith("deviceholds") else []), "1"

    async def nothing() -> None:
        return None

    installation: Any = SimpleNamespace(
        cluster=SimpleNamespace(api=SimpleNamespace(items=items)), nodes={}, kubelets={}
    )
    checker = Checker(installation)

    async def make(namespace: str, unit: Unit) -> None:
        for pod in unit.pods:
            metadata = pod["metadata"] | {"namespace": namespace, "uid": pod["metadata"]["name"]}
            running = {"metadata": metadata, "spec": pod["spec"], "status": {"phase": "Running"}}
            checker.pods[metadata["uid"]] = running

    async def delete_all() -> None:
        checker.pods.clear()

    churn: Any = SimpleNamespace(
        namespaces=["gated"], short_lived=[], make=make, delete_all=delete_all, reserve_nothing=nothing
    )
    monkeypatch.setattr(ending, "_PATIENCE_SECONDS", 0.1)
    left = await ending.end(installation, checker, churn)
    assert [text.split(":")[0] for text in left] == [
        f"hold {hold['metadata']['name']} is left" for hold in holds
    ]
