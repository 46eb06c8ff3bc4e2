"""Opaque parameters of an allocation, where kubelet asks for its devices."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from testbed.api import Json
from tests.agent.places import GPU
from tests.agent.simulated_node import SimulatedNode

MakeNode = Callable[..., AbstractAsyncContextManager[SimulatedNode]]
H100 = {"model": "H100-80GB"}


def parameters(kind: str = "GpuConfig", *requests: str, driver: str = GPU, **sharing: object) -> Json:
    """Return a `config` entry of an allocation."""
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing or None}
    opaque = {"driver": driver, "parameters": {name: value for name, value in body.items() if value}}
    return {"source": "FromClaim", "requests": [*requests], "opaque": opaque}


async def test_a_claim_is_not_prepared_with_parameters_that_would_be_ignored(
    make_node: MakeNode, namespace: str
) -> None:
    """By whom it was allocated does not matter: kubelet shows field and reason at the pod, and nothing is left on the node."""
    device = "gpu-0-mig-2g20gb-14-0"
    refused = {
        "mps": ([parameters(strategy="MPS")], "sharing.strategy: MPS is not offered"),
        "unknown": ([parameters("VfioDeviceConfig")], "kind: 'VfioDeviceConfig' is not known"),
        "part": (
            [parameters("GpuConfig", "r0")],
            f"kind: GpuConfig does not suit device {device} of request r0",
        ),
    }
    async with make_node(cards=[H100]) as node, node.agent():
        for name, (config, why) in refused.items():
            claim = await node.claim(namespace, name, device, config=config)
            error = (await node.prepare(claim))[claim["metadata"]["uid"]].error
            assert why in error
            assert "status.allocation.devices.config[0].opaque.parameters" in error
        assert node.cdi() == {}
        assert list(node.hardware()) == []


async def test_parameters_that_ask_for_nothing_special_are_no_hindrance(
    make_node: MakeNode, namespace: str
) -> None:
    """Nor are those of other drivers, and a configuration for whole GPUs where a claim has partitions only."""
    config = [
        parameters("GpuConfig", "r0", strategy="TimeSlicing"),
        parameters("MigDeviceConfig"),
        parameters(driver="gpu.example.com", strategy="MPS"),
    ]
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "plain", "gpu-0", config=config)
        assert (await node.prepare(claim))[claim["metadata"]["uid"]].error == ""


async def test_a_claim_that_is_prepared_stays_so_whatever_its_parameters(
    make_node: MakeNode, namespace: str
) -> None:
    """Its containers run: an agent that refuses more than the one before takes nothing from them."""
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "runs", "gpu-0")
        uid = claim["metadata"]["uid"]
        first = await node.prepare(claim)
        assert first[uid].error == ""
        await node.deallocate(claim)
        await node.allocate(claim, "gpu-0", config=[parameters(strategy="MPS")])
        assert await node.prepare(claim) == first


async def test_parameters_are_read_when_a_claim_gets_other_devices_than_were_begun(
    make_node: MakeNode, namespace: str
) -> None:
    """Nobody runs on the first ones: what the second allocation says counts as much as in a first prepare."""
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "moved", "gpu-0-mig-2g20gb-14-0")
        uid = claim["metadata"]["uid"]
        assert "no Partition object" in (await node.prepare(claim))[uid].error
        await node.deallocate(claim)
        await node.allocate(claim, "gpu-0", config=[parameters(strategy="MPS")])
        assert "MPS is not offered" in (await node.prepare(claim))[uid].error
        assert node.cdi() == {}
