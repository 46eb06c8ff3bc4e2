"""A device plugin on a node that has the agent as well: nobody is given its cards by both."""

from collections.abc import Mapping
from typing import Any

from apportion.agent.ownnode import OwnNode
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from testbed.eventually import eventually
from tests.agent.places import H100, NPU
from tests.agent.simulatednode import MakeNode, SimulatedNode
from tests.clock import Clock

TAINT = {"key": "apportion.dev/device-plugin", "effect": "NoSchedule"}
DEVICE = "gpu-0-mig-1g10gb-19-0"
MODELS = [H100, {"model": "910B4"}]


async def offer(node: SimulatedNode, amounts: Mapping[str, str]) -> None:
    """Write what kubelet writes of the resources that the Node has."""
    status = {"allocatable": amounts, "capacity": amounts}
    await node.api.patch(f"/api/v1/nodes/{node.name}/status", {"status": status})


def taints(devices: Mapping[str, Mapping[str, Any]]) -> set[bool]:
    """Return whether devices have the taint: some, all, none."""
    return {any(TAINT.items() <= each.items() for each in row["taints"]) for row in devices.values()}


async def test_cards_that_a_device_plugin_offers_go_to_no_claim_and_are_not_cut(make_node: MakeNode) -> None:
    """The manifests as they are put the agent on every node, and the plugin's pods use GPUs that it knows nothing of."""
    async with make_node(cards=MODELS) as node, node.agent():
        assert taints(await eventually(node.devices, bool)) == {False}
        await offer(node, {"cpu": "8", "nvidia.com/gpu": "8"})
        await eventually(node.devices, lambda found: taints(found) == {True})
        assert taints(await node.devices(NPU)) == {False}
        await node.partition(DEVICE, "1g.10gb", origin="Warm")
        failed = await node.phase(DEVICE, "Failed")
        assert "nvidia.com/gpu" in str(failed["status"]["conditions"])
        assert node.hardware() == []


async def test_what_is_known_before_the_start_is_published_with_the_taint(make_node: MakeNode) -> None:
    """MIG devices and shared GPUs have names of their own; NICs of the same vendor are other cards."""
    async with make_node(cards=MODELS) as node:
        amounts = {
            "huawei.com/Ascend910": "8",
            "nvidia.com/hostdev": "2",
            "nvidia.com/mig-1g.10gb.shared": "0",
        }
        await offer(node, amounts)
        async with node.agent():
            assert taints(await eventually(lambda: node.devices(NPU), bool)) == {True}
            # kubelet writes 0 after its start, until the plugin has registered anew.
            assert taints(await eventually(node.devices, bool)) == {True}
            said = await eventually(lambda: node.events("BrokenConfiguration"), bool)
            assert "nvidia.com/mig-1g.10gb.shared, huawei.com/Ascend910" in said[0]["message"]


async def test_a_plugin_counts_as_gone_when_it_has_not_come_back_for_a_while(unanswered: Client) -> None:
    """Its pods run on while it is updated, or kubelet starts."""
    clock, calls = Clock(0.0), list[None]()
    node = OwnNode(unanswered, "n", lambda: calls.append(None), clock=clock)

    def see(capacity: str, allocatable: str) -> frozenset[str]:
        status = {"capacity": {"nvidia.com/gpu": capacity}, "allocatable": {"nvidia.com/gpu": allocatable}}
        node.observe(NODES, "MODIFIED", {"metadata": {}, "status": status})
        return node.offered

    assert see("8", "8") == {"nvidia.com/gpu"}
    clock.now += 1000
    assert see("8", "0") == {"nvidia.com/gpu"}
    clock.now += 1000
    assert see("0", "0") == {"nvidia.com/gpu"}
    clock.now += 100
    assert see("0", "0") == {"nvidia.com/gpu"}
    assert see("8", "8") == {"nvidia.com/gpu"}
    clock.now += 1000
    assert see("0", "0") == {"nvidia.com/gpu"}
    clock.now += 119
    assert see("0", "0") == {"nvidia.com/gpu"}
    clock.now += 1
    assert see("0", "0") == frozenset()
    assert calls == [None]
