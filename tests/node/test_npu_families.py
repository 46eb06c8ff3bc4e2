"""An agent in a container cuts a vNPU of every family of NPUs that has any, and says of the others why not."""

from collections.abc import AsyncIterator

import pytest

from testbed.binaries import Binaries
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import MANAGED, Workload, vnpu


@pytest.fixture(scope="module")
async def node(binaries: Binaries, node_binaries: Binaries) -> AsyncIterator[RealNodeInstallation]:
    """Run a node whose cards are exchanged; the agent's container sees the driver as a privileged pod does."""
    made = RealNodeInstallation(
        gpus=(), npus=("910B4",), name="npus", binaries=binaries, programs=node_binaries
    )
    async with made:
        yield made


@pytest.mark.parametrize(
    ("model", "template"),
    [("310P", "vir02"), ("910A", "vir04"), ("910B4", "vir05_1c_8g"), ("910B2", "vir06_1c_16g")],
)
async def test_a_vnpu_is_cut_from_inside_a_container(
    node: RealNodeInstallation, model: str, template: str
) -> None:
    """310P and 910A refuse the question for the mode there, and make vNPUs all the same."""
    await node.exchange_cards(npus=(model,))
    name = await node.cluster.make_namespace("team", MANAGED)
    work = Workload(node.cluster, node.node, name)
    seen = await work.run("vnpu", vnpu(template))
    (live,) = node.hardware.dcmi.vnpus()
    assert live.template == template
    assert seen.devices[f"/dev/davinci{live.id}"] == f"236:{live.id}"
    await work.delete("vnpu")
    await node.cluster.drop_namespace(name)
    await node.nothing_left(warm=True)


@pytest.mark.parametrize("model", ["A3", "310B", "950"])
async def test_a_family_without_vnpus_says_so(node: RealNodeInstallation, model: str) -> None:
    """The chip is published whole, with the reason."""
    await node.exchange_cards(npus=(model,))
    (device,) = [
        device
        for each in await node.slices()
        for device in each["spec"].get("devices", ())
        if each["spec"]["driver"] == "npu.apportion.dev"
    ]
    attributes = device["attributes"]
    assert attributes["type"] == {"string": "npu"}
    assert attributes["notPartitionable"] == {"string": "NotSupported"}
