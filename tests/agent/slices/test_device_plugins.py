"""A device plugin on a node that has the agent as well: nobody is given its cards by both."""

from collections.abc import Mapping
from typing import Any

from testbed.eventually import eventually
from tests.agent.places import H100, NPU
from tests.agent.simulatednode import MakeNode, SimulatedNode

TAINT = {"key": "apportion.dev/device-plugin", "effect": "NoSchedule"}
MODELS = [H100, {"model": "910B4"}]


async def offer(node: SimulatedNode, amounts: Mapping[str, str]) -> None:
    """Write what kubelet writes of the resources that the Node has."""
    await node.api.patch(f"/api/v1/nodes/{node.name}/status", {"status": {"allocatable": amounts}})


def taints(devices: Mapping[str, Mapping[str, Any]]) -> set[bool]:
    """Return whether devices have the taint: some, all, none."""
    return {any(TAINT.items() <= each.items() for each in row["taints"]) for row in devices.values()}


async def test_cards_that_a_device_plugin_offers_go_to_no_claim_until_it_has_gone(
    make_node: MakeNode,
) -> None:
    """The manifests as they are put the agent on every node, and the plugin's pods use GPUs that it knows nothing of."""
    async with make_node(cards=MODELS) as node, node.agent():
        assert taints(await eventually(node.devices, bool)) == {False}
        await offer(node, {"cpu": "8", "nvidia.com/gpu": "8"})
        await eventually(node.devices, lambda found: taints(found) == {True})
        assert taints(await node.devices(NPU)) == {False}
        said = await eventually(lambda: node.events("BrokenConfiguration"), bool)
        assert "nvidia.com/gpu" in said[0]["message"]
        await offer(node, {"nvidia.com/gpu": "0"})
        await eventually(node.devices, lambda found: taints(found) == {False})


async def test_each_name_of_a_device_plugin_s_resource_counts_for_its_kind_of_cards(
    make_node: MakeNode,
) -> None:
    """MIG devices and shared GPUs have names of their own; who knows the plugin before the start publishes nothing without the taint."""
    async with make_node(cards=MODELS) as node:
        await offer(node, {"huawei.com/Ascend910": "8", "nvidia.com/hostdev": "2"})
        async with node.agent():
            assert taints(await eventually(lambda: node.devices(NPU), bool)) == {True}
            assert taints(await eventually(node.devices, bool)) == {False}
            for name in ("nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"):
                await offer(node, {name: "7"})
                await eventually(node.devices, lambda found: taints(found) == {True})
                await offer(node, {name: "0"})
                await eventually(node.devices, lambda found: taints(found) == {False})
