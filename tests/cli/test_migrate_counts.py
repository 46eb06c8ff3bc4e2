"""How many pods of a workload `apportion migrate` places: all that it has."""

from pathlib import Path

import pytest

from tests.cli.migrating import (
    GPU,
    Json,
    ask,
    container,
    device_class,
    devices,
    node,
    rows,
    spec,
    workload,
)

GPUS = 300


def large() -> list[Json]:
    """Return nodes with 300 GPUs in all, each with room for ten pods."""
    names = [f"n{number}" for number in range(GPUS // 10)]
    return [
        device_class(GPU, GPU, "gpu"),
        *(node(name) for name in names),
        *(devices(name, GPU, *[{"type": "gpu"}] * 10) for name in names),
    ]


@pytest.mark.parametrize("pods", [257, GPUS, GPUS + 1])
def test_each_pod_of_a_large_workload_is_placed(tmp_path: Path, pods: int) -> None:
    """More than 256 counted as 256, and as served where only so many find a place."""
    made = workload("Deployment", "d", spec(container(gpu="1")), replicas=pods)
    result = ask(tmp_path, made, world=large())
    [found] = rows(result)
    assert found["pods"] == pods
    assert sum(found["nodes"].values()) == min(pods, GPUS)
    assert found["served"] is (pods <= GPUS)
    assert bool(found["blocked"]) is not found["served"]
    assert result.exit_code == (0 if found["served"] else 1)
