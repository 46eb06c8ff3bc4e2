"""A GPU falls off the bus under a claim with a time slice: the claim ends all the same, and its other devices are free."""

import pytest

from apportion.agent.devices.nvml.timeslice import TimeSlices
from apportion.agent.devices.sharing import TimeSlice
from apportion.errors import Lost, NotReady, Unsupported
from tests.agent.nvml.nodes import Node


@pytest.mark.parametrize("refusal", [Unsupported, NotReady])
def test_a_time_slice_of_a_lost_gpu_is_nothing_to_take_back(
    node: Node, monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    """nvidia-smi finds no such GPU, or hangs: kubelet would ask for ever, and the pod would never go."""
    node.backend.devices()

    def refuse(*_: object) -> None:
        raise refusal("nvidia-smi sets no time slice: No devices were found")

    monkeypatch.setattr(TimeSlices, "set", refuse)
    with pytest.raises(refusal):
        node.backend.sharing.set_time_slice("gpu-0", TimeSlice.DEFAULT)
    node.fake.lose(0)
    with pytest.raises(Lost):
        node.backend.sharing.set_time_slice("gpu-0", TimeSlice.DEFAULT)
    with pytest.raises(refusal):
        node.backend.sharing.set_time_slice("gpu-0", TimeSlice.LONG)
