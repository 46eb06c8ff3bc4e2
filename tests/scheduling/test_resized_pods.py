"""Pods that are resized in place (KEP-1287) count as kube-scheduler counts them (`resource.PodRequests` of component-helpers 1.37)."""

from typing import Any

import pytest

from apportion.dra.pod import Pod

Json = dict[str, Any]


def container(cpu: str, name: str = "c", **more: Any) -> Json:
    """Return a container that requests so much cpu."""
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def reported(admitted: str | None = None, given: str | None = None, name: str = "c") -> Json:
    """Return the status of a container: what kubelet has admitted, and what it has."""
    row: Json = {"name": name}
    if admitted is not None:
        row["allocatedResources"] = {"cpu": admitted}
    if given is not None:
        row["resources"] = {"requests": {"cpu": given}}
    return row


def pending(reason: str) -> Json:
    """Return the condition of a pod whose resize waits, or never comes."""
    return {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}


def cpu(status: Json, *, containers: list[Json], **spec: Any) -> int:
    """Return what a bound pod takes of its node, in thousandths of a core."""
    raw = {
        "metadata": {"name": "p", "uid": "p"},
        "spec": {"nodeName": "n", "containers": containers, **spec},
        "status": status,
    }
    return Pod.from_json(raw).requests.get("cpu", 0)


@pytest.mark.parametrize(
    ("wanted", "status", "counted"),
    [
        pytest.param("1", {}, 1000, id="nothing is reported"),
        pytest.param("4", {"containerStatuses": [reported("1", "1")]}, 4000, id="just asked for"),
        pytest.param(
            "4", {"containerStatuses": [reported("1", "1")]} | pending("Deferred"), 4000, id="deferred"
        ),
        pytest.param(
            "99", {"containerStatuses": [reported("1", "1")]} | pending("Infeasible"), 1000, id="infeasible"
        ),
        pytest.param(
            "99", {"containerStatuses": [reported("2")]} | pending("Infeasible"), 2000, id="only admitted"
        ),
        pytest.param("1", {"containerStatuses": [reported("1", "3")]}, 3000, id="not yet smaller"),
        pytest.param(
            "1", {"containerStatuses": [reported("2", "1")]}, 2000, id="admitted and not yet larger"
        ),
        pytest.param("1", {"containerStatuses": [reported(name="other")]}, 1000, id="another container"),
    ],
)
def test_a_pod_counts_with_the_largest_of_what_it_requests_and_has(
    wanted: str, status: Json, counted: int
) -> None:
    """A resize that its node can never carry out blocked the node for all, and one to less freed what its containers still had."""
    assert cpu(status, containers=[container(wanted)]) == counted


def test_containers_are_summed_before_the_largest_is_taken() -> None:
    """One is made smaller, the other one larger: both sums are four cores."""
    status = {"containerStatuses": [reported("3", "3", "a"), reported("1", "1", "b")]}
    assert cpu(status, containers=[container("1", "a"), container("3", "b")]) == 4000


def test_a_sidecar_that_cannot_be_resized_counts_with_what_it_has() -> None:
    """Its status is among those of the init containers."""
    status = {
        "containerStatuses": [reported("1", "1")],
        "initContainerStatuses": [reported("2", "2", "s")],
    } | pending("Infeasible")
    sidecar = container("50", "s", restartPolicy="Always")
    assert cpu(status, containers=[container("1")], initContainers=[sidecar]) == 3000


def test_what_a_pod_has_as_a_whole_counts_where_kubelet_reports_it() -> None:
    """Pod-level resources are resized, too (KEP-5419)."""
    given = {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}
    level = {"requests": {"cpu": "64"}}
    assert cpu(given, containers=[container("1")], resources=level) == 64000
    assert cpu(given | pending("Infeasible"), containers=[container("1")], resources=level) == 3000
    assert cpu(pending("Infeasible"), containers=[container("1")], resources=level) == 64000
    assert cpu(given | pending("Infeasible"), containers=[container("64")]) == 3000
