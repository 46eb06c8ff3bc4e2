"""Pods that only a new node would serve: kube-scheduler tries them, so that autoscalers see them, and a new node serves them."""

import asyncio

from testbed.api import Json
from testbed.demo.nodes import h100
from testbed.installation import Installation
from testbed.nodes import simulated_nodes
from tests.e2e.clusterobjects import objects
from tests.e2e.tenant import GATE, SLICES, Tenant, claim, device_slice, gates, pod, request

CLASS = "gpu.apportion.dev"
GUARD = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
BLUE = 'device.attributes["gpu.apportion.dev"].?colour.orValue("") == "blue"'


async def unbound_and_ungated(tenant: Tenant, name: str) -> str:
    """Wait until a pod has lost its gate and kube-scheduler has tried it; returns what it said."""
    await tenant.event(name, "ShownToAutoscalers", "no node of the cluster")
    said = await tenant.unschedulable(name)
    found = await tenant.pod(name)
    assert gates(found) == []
    assert "nodeName" not in found["spec"]
    return said


async def comes(installation: Installation, tenant: Tenant, name: str) -> Json:
    """Let a node with a blue GPU come, as an autoscaler would; returns the pod once it is bound there."""
    blue = {
        "name": "gpu-0",
        "taints": [GUARD],
        "attributes": {"type": {"string": "gpu"}, "colour": {"string": "blue"}},
    }
    made = device_slice("new", CLASS, blue, pool={"name": "new"})
    del made["spec"]["allNodes"]
    made["spec"]["nodeName"] = "new"
    node = h100("new").shape()
    async with (
        simulated_nodes(installation.cluster, [node]),
        objects(installation, (SLICES, made)),
    ):
        for _ in range(300):
            found = await tenant.pod(name)
            if found["spec"].get("nodeName"):
                return found
            await asyncio.sleep(0.1)
    raise AssertionError(f"pod {name} is not bound")


async def test_a_pod_that_no_node_could_serve_is_seen_by_autoscalers_and_served_by_a_new_node(
    installation: Installation, team: Tenant
) -> None:
    """Gate gone, PodScheduled False with reason Unschedulable, devices still guarded; then a node with such a device comes."""
    await team.make(claim("blue", request(CLASS, BLUE)))
    made = await team.make(pod("blue", "blue"))
    assert gates(made) == [GATE]

    said = await unbound_and_ungated(team, "blue")
    assert "cannot allocate all claims" in said

    found = await comes(installation, team, "blue")
    assert found["spec"]["nodeName"] == "new"
    assert await team.allocated("blue") == ["new/gpu-0"]
    await team.end_by_force("blue")
