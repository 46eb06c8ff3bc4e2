"""GPUs behind NVSwitches are used whole once they have joined the fabric."""

import pytest

from apportion.agent.devices.hardware import Hardware
from testbed.eventually import eventually
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake, Node, Nodes
from tests.agent.simulatednode import SimulatedNode

NONE, NOT_STARTED, IN_PROGRESS, COMPLETED = range(4)
CLUSTER = "9d3c8f0e-6d2b-4a5e-8d86-0a1b2c3d4e5f"
WHOLE, PART = "gpu-0", "gpu-0-mig-1g10gb-19-0"


async def reasons(node: SimulatedNode, device: str) -> list[str]:
    """Return the values of a device's fabric taints."""
    taints = (await node.devices())[device]["taints"]
    return [taint["value"] for taint in taints if taint["key"] == "apportion.dev/fabric"]


@pytest.mark.parametrize(
    ("state", "status", "wanted"),
    [
        (NONE, 0, {}),
        (NOT_STARTED, 0, {"gpu-0": "NotStarted"}),
        (IN_PROGRESS, 999, {"gpu-0": "InProgress"}),
        (COMPLETED, 999, {"gpu-0": "Failed"}),
        (COMPLETED, 0, {}),
    ],
)
async def test_a_gpu_has_joined_when_its_registration_is_complete_and_without_error(
    node: Node, state: int, status: int, wanted: dict[str, str]
) -> None:
    """The other GPU has no fabric, which is no reason against it."""
    node.fake.fabric(0, state, status=status)
    hardware = Hardware([node.backend])
    await hardware.discover()
    assert await hardware.fabric() == wanted


async def test_a_gpu_that_cannot_be_asked_is_as_it_was(node: Node) -> None:
    """That nobody knows whether it has joined is no sign that it has, or has not."""
    node.fake.fabric(0, NOT_STARTED)
    node.fake.fabric(1, COMPLETED)
    hardware = Hardware([node.backend])
    await hardware.discover()
    before = await hardware.fabric()
    node.fake.fail("nvmlDeviceGetGpuFabricInfoV", 999, times=-1)
    assert await hardware.fabric() == before == {"gpu-0": "NotStarted"}


async def test_a_gpu_that_could_never_be_asked_is_found_and_has_not_joined(node: Node) -> None:
    """Whether it has a fabric is unknown: as a whole it waits, cut it can be used."""
    node.fake.fabric(0, COMPLETED)
    node.fake.fail("nvmlDeviceGetGpuFabricInfoV", 999, times=-1, card=0)
    hardware = Hardware([node.backend])
    assert set(await hardware.discover()) == {"gpu-0", "gpu-1"}
    assert await hardware.fabric() == {"gpu-0": "Unknown"}
    node.fake.heal()
    assert await hardware.fabric() == {}


async def test_gpus_without_a_fabric_are_not_asked_at_every_look(node_with: Nodes) -> None:
    """Older ones know no such question."""
    node = node_with(["H100-80GB", "A100-80GB"])
    hardware = Hardware([node.backend])
    await hardware.discover()
    asked = node.fake.calls()["nvmlDeviceGetGpuFabricInfoV"]
    assert await hardware.fabric() == {}
    assert node.fake.calls()["nvmlDeviceGetGpuFabricInfoV"] == asked


async def test_claims_stay_away_from_a_whole_gpu_until_it_has_joined(faked: MakeFake) -> None:
    """Its partitions do without NVLink; the clique is an attribute of the whole GPU."""

    def join(fake: FakeNvml, state: int) -> None:
        fake.fabric(0, state, clique=7, cluster=CLUSTER)

    async with faked() as (node, fake):
        join(fake, IN_PROGRESS)
        async with killed_agent(node, "never"):
            await eventually(node.devices, bool, within=60)
            assert await eventually(lambda: reasons(node, WHOLE), bool) == ["InProgress"]
            assert await reasons(node, PART) == []
            (event,) = await eventually(lambda: node.events("FabricNotUp"), bool)
            assert "gpu-0" in event["message"]
            join(fake, COMPLETED)
            await eventually(lambda: reasons(node, WHOLE), lambda found: found == [])
            devices = await eventually(
                node.devices, lambda found: "cliqueID" in found[WHOLE]["attributes"], within=60
            )
            assert devices[WHOLE]["attributes"]["cliqueID"] == {"string": f"{CLUSTER}.7"}
            assert devices[WHOLE]["attributes"]["clusterUUID"] == {"string": CLUSTER}
            assert "cliqueID" not in devices[PART]["attributes"]
