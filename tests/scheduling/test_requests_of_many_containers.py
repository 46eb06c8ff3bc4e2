"""What a pod requests is read by work that grows with its size, and is what kube-scheduler counts, container by container."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.dra.pod import Pod
from tests.steps import steps

Json = dict[str, Any]
Row = tuple[bool, dict[str, int]]
"""Whether an init container is a sidecar, and what it requests."""


def read(rows: list[Row], own: dict[str, int]) -> Pod:
    """Return a pod with these init containers and one container."""

    def container(name: str, requests: dict[str, int], **more: Any) -> Json:
        return {
            "name": name,
            "resources": {"requests": {key: str(amount) for key, amount in requests.items()}},
            **more,
        }

    first = [
        container(f"i{number}", requests, **({"restartPolicy": "Always"} if is_sidecar else {}))
        for number, (is_sidecar, requests) in enumerate(rows)
    ]
    spec = {"initContainers": first, "containers": [container("c", own)]}
    return Pod.from_json({"metadata": {"name": "p", "uid": "p"}, "spec": spec})


AMOUNTS = st.dictionaries(st.sampled_from(["example.com/a", "example.com/b", "memory"]), st.integers(0, 9))


@given(st.lists(st.tuples(st.booleans(), AMOUNTS), max_size=6), AMOUNTS)
def test_the_largest_sum_at_any_time_counts(rows: list[Row], own: dict[str, int]) -> None:
    """Sidecars run from their start on; of the others one at a time, and the containers last."""
    running: list[dict[str, int]] = []
    times: list[list[dict[str, int]]] = []
    for is_sidecar, requests in rows:
        times.append([*running, requests])
        if is_sidecar:
            running.append(requests)
    times.append([*running, own])
    requested = read(rows, own).requests
    for name in ("example.com/a", "example.com/b", "memory"):
        most = max(sum(each.get(name, 0) for each in at_once) for at_once in times)
        assert requested.get(name, 0) == most


@pytest.mark.parametrize("is_sidecar", [True, False])
def test_work_grows_with_the_number_of_init_containers(*, is_sidecar: bool) -> None:
    """One pod of 4,000, each with a resource of its own, held up everybody for nine seconds, and again with each of its changes."""
    few, many = (
        steps(lambda n=count: read([(is_sidecar, {f"example.com/r{row}": 1}) for row in range(n)], {}))
        for count in (50, 500)
    )
    assert many < 12 * few
