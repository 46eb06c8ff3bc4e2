"""Take-backs: kube-scheduler refuses our node for a reason that we do not look at. Another node, and never a loop."""

import asyncio
import time

import pytest

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.specialpods import against, with_disk
from tests.e2e.tenant import NPU, Tenant, chip, claim, devices, first_available, metric, pod, request

MOST = 3
"""A handful: what the requirement allows for one pod."""
ALLOCATIONS = 'apportion_allocations_total{result="written"}'
LEFT_OUT = 10.0
"""Seconds for which a node that was refused for a pod is left out for it, the first time (`Exclusions`)."""


@pytest.mark.parametrize("anywhere", [False, True])
async def test_a_node_that_a_neighbour_rules_out_is_not_tried(
    installation: Installation, team: Tenant, *, anywhere: bool
) -> None:
    """The pod's anti-affinity is looked at before a node is chosen, also where it chooses namespaces by their labels."""
    await team.make(pod("neighbour", nodeSelector={"kubernetes.io/hostname": "ascend-910b4-a"}))
    await team.running("neighbour")
    before = await metric(installation, "apportion_take_backs_total")
    await team.make(claim("npu", first_available((NPU, chip("910B4", 1)), (NPU, chip("310P", 1)))))
    await team.make(pod("shy", "npu", affinity=against("neighbour", anywhere=anywhere)))

    [running] = await team.running("shy")

    assert running["spec"]["nodeName"] == "ascend-310p-a"
    assert await metric(installation, "apportion_take_backs_total") == before


async def test_a_pod_waits_for_its_volume_claim(installation: Installation, team: Tenant) -> None:
    """It holds no device meanwhile, and runs once the volume is there."""
    await team.make(claim("npu", request(NPU)))
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await team.make(pod("patient", "npu", volumes=[volume]))
    await team.event("patient", "ClaimsNotAllocated", "PersistentVolumeClaim data does not exist")
    assert devices(await team.claim("npu")) == []

    api, path = installation.cluster.api, f"/api/v1/namespaces/{team.namespace}/persistentvolumeclaims"
    common = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["ascend-310p-a"]}
    await api.create(
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": team.namespace},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/tmp"},  # noqa: S108 - nothing is written there
                "claimRef": {"namespace": team.namespace, "name": "data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        },
    )
    wanted = {**common, "volumeName": team.namespace, "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(path, {"metadata": {"name": "data"}, "spec": wanted})

    [running] = await team.running("patient")
    assert running["spec"]["nodeName"] == "ascend-310p-a"
    await team.delete("Pod", "patient")
    await api.delete(f"{path}/data")
    await api.delete(f"/api/v1/persistentvolumes/{team.namespace}")


async def test_a_refused_node_is_left_for_another(installation: Installation, team: Tenant) -> None:
    """We prefer the first alternative, whose only node has a pod with the same disk."""
    await team.make(with_disk(pod("neighbour", nodeSelector={"kubernetes.io/hostname": "ascend-910b4-a"})))
    await team.running("neighbour")
    before = await metric(installation, "apportion_take_backs_total")
    await team.make(claim("npu", first_available((NPU, chip("910B4", 1)), (NPU, chip("310P", 1)))))
    await team.make(with_disk(pod("shy", "npu")))

    [running] = await team.running("shy")
    taken_back = await metric(installation, "apportion_take_backs_total") - before

    assert running["spec"]["nodeName"] == "ascend-310p-a"
    assert await team.allocated("npu") == ["ascend-310p-a/npu-1"]
    assert 1 <= taken_back <= MOST
    await team.event("shy", "NodeRefused", "ascend-910b4-a")


async def test_pods_that_fit_nowhere_do_not_loop(
    installation: Installation, team: Tenant, plain: Tenant
) -> None:
    """Each node has a pod with the same disk: few allocations, then quiet."""
    company = [f"company-{index}" for index, _ in enumerate(installation.nodes)]
    for name, node in zip(company, installation.nodes, strict=True):
        await plain.make(with_disk(pod(name, nodeSelector={"kubernetes.io/hostname": node})))
    await plain.running(*company)
    before, began = await metric(installation, ALLOCATIONS), time.monotonic()
    for tenant in (team, plain):
        await tenant.make(claim("lonely", request(NPU)))
        await tenant.make(with_disk(pod("lonely", "lonely")))
    await plain.make(claim("shunning", request(NPU)))
    await plain.make(with_disk(pod("shunning", "shunning")))

    async def tries() -> float:
        return await metric(installation, ALLOCATIONS) - before

    await eventually(tries, lambda found: found >= 3)
    await asyncio.sleep(LEFT_OUT / 2)
    made = await tries()
    # Each of the two nodes with NPUs at most once for each of the three pods, and once more after each time for which it was left out.
    assert made <= 6 * (1 + (time.monotonic() - began) // LEFT_OUT)
    for tenant in (team, plain):
        assert (await tenant.pod("lonely"))["status"]["phase"] == "Pending"
    assert (await plain.pod("shunning"))["status"]["phase"] == "Pending"
