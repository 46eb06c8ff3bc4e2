"""A GPU falls off the bus under a claim with a time slice: the claim ends all the same, and its other devices are free."""

import pytest

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.sharing import TimeSlice
from apportion.errors import Lost, NotReady, Unsupported
from testbed.fakes.nvml import programs
from testbed.fakes.nvml.smi import REFUSES
from tests.agent.nvml.nodes import Node


@pytest.mark.parametrize("refusal", [Unsupported, NotReady])
def test_a_time_slice_of_a_lost_gpu_is_nothing_to_take_back(
    node: Node, monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    """nvidia-smi finds no such GPU, or hangs: kubelet would ask for ever, and the pod would never go."""
    programs.install(node.root)
    node.backend.close()
    if refusal is NotReady:
        (node.root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\nexec sleep 30\n")
        node.backend = NvmlBackend(node.root, smi_seconds=0.1)
    else:
        monkeypatch.setenv(REFUSES, "No devices were found")
        node.backend = NvmlBackend(node.root)
    node.backend.devices()
    with pytest.raises(refusal, match="nvidia-smi"):
        node.backend.sharing.set_time_slice("gpu-0", TimeSlice.DEFAULT)
    node.fake.lose(0)
    with pytest.raises(Lost):
        node.backend.sharing.set_time_slice("gpu-0", TimeSlice.DEFAULT)
    with pytest.raises(refusal, match="nvidia-smi"):
        node.backend.sharing.set_time_slice("gpu-0", TimeSlice.LONG)
