"""`apportion why` of what neither apportion nor kube-scheduler serves: it says what the operator's Event says, in its words."""

from pathlib import Path
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, NODES
from tests.cli.whyasked import events, why
from tests.cli.worlds import Cluster
from tests.clients import unanswered
from tests.observedcluster import GPU, request

__all__ = ["unanswered"]

Json = dict[str, Any]
PATIENCE = 5.0
RESOURCE = "nvidia.com/gpu"
GUARD = {"key": "apportion.dev/guard", "effect": "NoSchedule"}


def guarded() -> Cluster:
    """Return a node with one guarded device, a managed class with an extended resource, and a class of a user that selects the same."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.slice("n1", "s", {"devices": [{"name": "gpu-0", "taints": [GUARD]}]}, 1)
    cluster.device_class("own", f'device.driver == "{GPU}"', other="label")
    spec = {
        "extendedResourceName": RESOURCE,
        "selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}],
    }
    metadata = {"name": "gpu", "labels": {"apportion.dev/managed": "true"}}
    cluster.see(CLASSES, {"metadata": metadata, "spec": spec})
    return cluster


def extended(cluster: Cluster, name: str, *claims: str, **spec: Any) -> None:
    amount = {RESOURCE: "1"}
    containers = [{"name": "main", "resources": {"requests": amount, "limits": amount}}]
    cluster.pod(name, *claims, spec={"containers": containers, **spec})


@pytest.mark.parametrize("plugins", ["", "8"])
async def test_a_pod_that_asks_for_an_extended_resource_of_ours_is_not_left_to_kube_scheduler(
    tmp_path: Path, unanswered: Client, plugins: str
) -> None:
    """kube-scheduler may not choose these devices; nodes with a device plugin are counted."""
    cluster = guarded()
    if plugins:
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "10", RESOURCE: plugins}
        cluster.see(NODES, {"metadata": {"name": "n2", "labels": {}}, "status": {"allocatable": allocatable}})
    extended(cluster, "p")
    found = why(tmp_path, cluster, "pod", "p")
    assert found["reason"] == "ExtendedResource"
    assert [(found["reason"], found["message"])] == events(cluster, unanswered, "p", apart=PATIENCE)


async def test_so_is_one_whose_claims_have_their_devices(tmp_path: Path, unanswered: Client) -> None:
    """It has what it names, and waits for what it asks for beside that."""
    cluster = guarded()
    cluster.allocate(cluster.claim("c", request("gpu")), "n1", "gpu-0")
    extended(cluster, "p", "c")
    found = why(tmp_path, cluster, "pod", "p")
    assert [(found["reason"], found["message"])] == events(cluster, unanswered, "p", apart=PATIENCE)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeName": "n1"}, "NoClaims"),
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, "NoClaims"),
    ],
)
def test_who_has_a_node_or_waits_for_others_is_not_ours(tmp_path: Path, spec: Json, reason: str) -> None:
    """A device plugin's pod that runs is served by that."""
    cluster = guarded()
    extended(cluster, "p", **spec)
    assert why(tmp_path, cluster, "pod", "p")["reason"] == reason


@pytest.mark.parametrize("what", ["pod", "claim"])
async def test_a_claim_of_a_class_that_nobody_manages_and_that_selects_guarded_devices_is_nobodys(
    tmp_path: Path, unanswered: Client, what: str
) -> None:
    """The class needs a label; kube-scheduler will never allocate them."""
    cluster = guarded()
    cluster.wait_for("c", request("own"))
    found = why(tmp_path, cluster, what, "c")
    assert found["reason"] == "UnmanagedClass"
    assert [(found["reason"], found["message"])] == events(cluster, unanswered, "c", apart=PATIENCE)
