"""One GPU that answers with errors costs nobody the others: at discovery."""

import pytest

from apportion.agent.devices.values import Health
from apportion.errors import HardwareError
from tests.agent.nvml.nodes import Node, Nodes


@pytest.mark.parametrize("code", [3, 10, 16, 17, 999, 4711])
def test_a_gpu_that_answers_with_any_error_keeps_no_other_from_being_found(
    node_with: Nodes, code: int
) -> None:
    """Lost GPUs answer "Unknown Error" as well (koordinator 2706), and nobody knows which code comes next."""
    node = node_with(["H100-80GB"] * 8)
    node.fake.fail("*", code, times=-1, card=3)
    assert {card.name for card in node.backend.devices()} == {f"gpu-{index}" for index in range(8)} - {
        "gpu-3"
    }
    assert node.backend.incomplete()
    with pytest.raises(HardwareError):
        node.backend.partitions_of("gpu-3")
    node.fake.heal()
    assert len(node.backend.devices()) == 8


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetUUID",
    ],
)
def test_one_answer_that_fails_leaves_out_that_gpu_only(node: Node, function: str) -> None:
    """Whichever it is."""
    node.fake.fail(function, 999, times=-1, card=0)
    assert [card.name for card in node.backend.devices()] == ["gpu-1"]


def test_a_gpu_that_does_not_tell_its_links_is_in_no_group(node_with: Nodes) -> None:
    """The others keep theirs."""
    node = node_with(["A100-80GB"] * 4)
    node.fake.nvlink([(0, 1), (2, 3)])
    node.fake.fail("nvmlDeviceGetNvLinkState", 999, times=-1, card=0)
    groups = [card.attributes.get("nvlinkGroup") for card in node.backend.devices()]
    assert len(groups) == 4
    assert groups[2] == groups[3] is not None


def test_a_gpu_that_was_known_stays_when_it_does_not_answer_another_discovery(node_with: Nodes) -> None:
    """Another one made it necessary; unknown is not gone."""
    node = node_with(["H100-80GB"] * 3)
    node.fake.lose(2)
    assert [card.name for card in node.backend.devices()] == ["gpu-0", "gpu-1"]
    node.fake.heal()
    node.fake.fail("*", 999, times=-1, card=0)
    assert [card.name for card in node.backend.devices()] == ["gpu-0", "gpu-1", "gpu-2"]
    assert node.backend.health() == {"gpu-0": Health.SICK}
