"""PodGroup objects of Kubernetes 1.37, on a control plane whose feature gates serve them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from testbed.binaries import Binaries
from testbed.components import APISERVER, CONTROLLER_MANAGER, SCHEDULER
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import h100
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import (
    GATE,
    GPU,
    LEASE,
    MANAGED,
    Tenant,
    claim,
    devices,
    gates,
    pod,
    request,
    serving,
)

_GATES = (
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,DRAWorkloadResourceClaims=true"
)
_SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true"
_POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1"


@pytest.fixture(scope="module")
async def installation(binaries: Binaries) -> AsyncIterator[Installation]:
    """Install with two nodes of eight GPUs."""
    flags = {APISERVER: (_GATES, _SERVED), CONTROLLER_MANAGER: (_GATES,), SCHEDULER: (_GATES,)}
    async with (
        ControlPlane(binaries=binaries, flags=flags) as cluster,
        Installation(cluster, [h100("left"), h100("right")], operator_options=LEASE) as installed,
    ):
        await serving(installed)
        yield installed


@pytest.fixture
async def team(installation: Installation) -> Tenant:
    """Make a managed namespace; it goes with the control plane."""
    return Tenant(installation, await installation.cluster.make_namespace("native", MANAGED))


async def pod_group(team: Tenant, name: str, least: int, **more: Any) -> None:
    """Make a PodGroup that needs so many pods."""
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}, **more}
    body = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }
    path = f"{_POD_GROUPS}/namespaces/{team.namespace}/podgroups"
    await team.installation.cluster.api.create(path, body)


def member(name: str, group: str, *claims: str) -> dict[str, Any]:
    """Return a pod of a PodGroup."""
    return pod(name, *claims, schedulingGroup={"podGroupName": group})


async def test_pods_of_a_podgroup_get_their_devices_together_or_not_at_all(team: Tenant) -> None:
    """Two with five GPUs each are not enough for a group of three; kube-scheduler then places all that the group lets go."""
    await pod_group(team, "train", 3)
    for name in ("a", "b"):
        await team.make(claim(name, request(GPU, count=4)))
        await team.make(member(name, "train", name))
    await team.event("a", "GroupIncomplete", "podgroup/train", "2 of at least 3")
    assert [gates(await team.pod(name)) for name in "ab"] == [[GATE], [GATE]]

    await team.make(claim("c", request(GPU, count=4)))
    await team.make(member("c", "train", "c"))

    running = await team.running("a", "b", "c")
    assert {each["spec"]["nodeName"] for each in running} == {"left", "right"}
    for name in "abc":
        await team.delete("Pod", name)
        await team.delete("ResourceClaim", name)


async def test_a_podgroups_topology_is_required(team: Tenant) -> None:
    """Both of its pods are on the empty node, although one of them would fill the other one."""
    await team.make(claim("x", request(GPU, count=4)))
    await team.make(pod("x", "x"))
    [before] = await team.running("x")
    key = [{"key": "kubernetes.io/hostname"}]
    await pod_group(team, "close", 2, schedulingConstraints={"topology": key})
    for name in ("d", "e"):
        await team.make(claim(name, request(GPU, count=4)))
        await team.make(member(name, "close", name))

    running = await team.running("d", "e")

    assert {each["spec"]["nodeName"] for each in running} == {"left", "right"} - {before["spec"]["nodeName"]}
    for name in "dex":
        await team.delete("Pod", name)
        await team.delete("ResourceClaim", name)


async def test_a_claim_of_a_podgroup_is_reserved_for_it_and_kept(team: Tenant) -> None:
    """Its pods share the GPU; the reservation names the group, and outlives a pod of it."""
    await team.make(claim("shared", request(GPU)))
    await pod_group(team, "sharing", 2, resourceClaims=[{"name": "shared", "resourceClaimName": "shared"}])
    for name in ("f", "g"):
        await team.make(member(name, "sharing", "shared"))
    await team.running("f", "g")

    found = await team.claim("shared")
    [user] = found["status"]["reservedFor"]
    assert (user["resource"], user["name"]) == ("podgroups", "sharing")

    await team.delete("Pod", "f")

    async def gone() -> bool:
        path = f"/api/v1/namespaces/{team.namespace}/pods"
        found, _ = await team.installation.cluster.api.items(path)
        return all(each["metadata"]["name"] != "f" for each in found)

    assert await eventually(gone)
    assert devices(await team.claim("shared")) == devices(found)
