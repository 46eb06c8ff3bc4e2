"""A pod that waits for a blue GPU, which no node has, and the node that comes with one."""

import asyncio

from testbed.api import Json
from testbed.demo.nodes import h100
from testbed.installation import Installation
from testbed.nodes import simulated_nodes
from tests.e2e.clusterobjects import objects
from tests.e2e.tenant import SLICES, Tenant, device_slice, gates

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
