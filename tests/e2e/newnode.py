"""A pod that waits for a blue GPU, which no node has, and the node that comes with one."""

import asyncio

from testbed.api import Json
from testbed.demo.nodes import h100
from testbed.installation import Installation
from testbed.nodes import simulated_nodes
from tests.e2e.clusterobjects import objects
from tests.e2e.tenant import GATE, SLICES, Tenant, device_slice, gates

CLASS = "gpu.apportion.dev"
GUARD = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
BLUE = 'device.attributes["gpu.apportion.dev"].?colour.orValue("") == "blue"'


async def seen_by_autoscalers(tenant: Tenant, name: str) -> None:
    """Wait until condition PodScheduled of a pod is what autoscalers look for; it has its gate, so that kube-scheduler leaves it alone."""
    await tenant.event(name, "ShownToAutoscalers", "no node of the cluster")
    assert "no node of the cluster could serve this pod" in await tenant.unschedulable(name)
    found = await tenant.pod(name)
    assert gates(found) == [GATE]
    [condition] = [each for each in found["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert condition["status"] == "False"


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
