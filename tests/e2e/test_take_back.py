"""Take-backs: kube-scheduler refuses our node for a reason that we do not model. Another node, and never a loop."""

import asyncio

from testbed.installation import Installation
from tests.e2e.specialpods import against, beside
from tests.e2e.tenant import NPU, Tenant, chip, claim, first_available, metric, pod, request

MOST = 3
"""A handful: what the requirement allows for one pod."""


async def test_a_refused_node_is_left_for_another(installation: Installation, team: Tenant) -> None:
    """We prefer the first alternative, whose only node the pod's anti-affinity excludes."""
    await team.make(pod("neighbour", nodeSelector={"kubernetes.io/hostname": "ascend-910b4-a"}))
    await team.running("neighbour")
    before = await metric(installation, "apportion_take_backs_total")
    await team.make(claim("npu", first_available((NPU, chip("910B4", 1)), (NPU, chip("310P", 1)))))
    await team.make(pod("shy", "npu", affinity=against("neighbour")))

    [running] = await team.running("shy")
    taken_back = await metric(installation, "apportion_take_backs_total") - before

    assert running["spec"]["nodeName"] == "ascend-310p-a"
    assert await team.allocated("npu") == ["ascend-310p-a/npu-1"]
    assert 1 <= taken_back <= MOST
    await team.event("shy", "NodeRefused", "ascend-910b4-a")


async def test_pods_that_fit_nowhere_do_not_loop(
    installation: Installation, team: Tenant, plain: Tenant
) -> None:
    """One that wants company that is not there, one that shuns every node: few allocations, then quiet."""
    company = [f"company-{index}" for index, _ in enumerate(installation.nodes)]
    for name, node in zip(company, installation.nodes, strict=True):
        crowd = pod(name, nodeSelector={"kubernetes.io/hostname": node})
        crowd["metadata"]["labels"]["app"] = "crowd"
        await plain.make(crowd)
    await plain.running(*company)
    before = await metric(installation, "apportion_allocations_total")
    for tenant in (team, plain):
        await tenant.make(claim("lonely", request(NPU)))
        await tenant.make(pod("lonely", "lonely", affinity=beside("nobody")))
    await plain.make(claim("shunning", request(NPU)))
    await plain.make(pod("shunning", "shunning", affinity=against("crowd")))

    await asyncio.sleep(10)
    tries = await metric(installation, "apportion_allocations_total") - before

    # Each of the two nodes with NPUs at most once for each of the three pods.
    assert 3 <= tries <= 6
    for tenant in (team, plain):
        assert (await tenant.pod("lonely"))["status"]["phase"] == "Pending"
    assert (await plain.pod("shunning"))["status"]["phase"] == "Pending"
