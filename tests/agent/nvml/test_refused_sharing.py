"""What a GPU or its host cannot do is refused at prepare, and the claim is unprepared all the same: its pod ends, and others get the GPU."""

import pynvml
import pytest

from testbed.eventually import eventually
from testbed.fakes.nvml import programs
from testbed.fakes.nvml.smi import REFUSES
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.nvml.sharinghost import VERSION, mps, sharing_host, sliced
from tests.agent.nvml.test_control_daemons import prepared


async def test_a_claim_whose_time_slice_was_refused_is_unprepared(
    faked: MakeFake, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi says that this GPU has no time slices: nothing was set, and there is nothing to take back."""
    monkeypatch.setenv(REFUSES, "Timeslice is not supported")
    async with (
        faked() as (node, fake),
        sharing_host(node, fake) as host,
        killed_agent(node, "never") as agent,
    ):
        claim = await node.claim(namespace, "slices", "gpu-0", config=[sliced("Long")])
        assert "Timeslice is not supported" in await prepared(agent, host, claim)
        assert await node.unprepared(claim) == ""
        assert host.left() == []
        plain = await node.claim(namespace, "plain", "gpu-0")
        assert await node.prepared(plain) == ""


async def test_a_claim_whose_compute_mode_was_refused_is_unprepared(faked: MakeFake, namespace: str) -> None:
    """The GPU (a virtual one, or one of a desktop) has no compute modes."""
    async with (
        faked() as (node, fake),
        sharing_host(node, fake) as host,
        killed_agent(node, "never") as agent,
    ):
        fake.fail("nvmlDeviceSetComputeMode", pynvml.NVML_ERROR_NOT_SUPPORTED, times=-1)
        claim = await node.claim(namespace, "mps", "gpu-0", config=[mps()])
        assert "nvmlDeviceSetComputeMode" in await prepared(agent, host, claim)
        assert await node.unprepared(claim) == ""
        assert host.left() == []
        plain = await node.claim(namespace, "plain", "gpu-0")
        assert await node.prepared(plain) == ""


async def test_a_claim_whose_daemon_could_not_be_asked_for_is_unprepared(
    faked: MakeFake, namespace: str
) -> None:
    """The host was started by systemd and has no D-Bus: no daemon was ever started, and the GPU can be set up otherwise."""
    async with faked() as (node, fake):
        root = node.options.host_root
        programs.install(root, VERSION)
        (root / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)
        (root / "sys/module/nvidia/version").write_text(f"{VERSION}\n", encoding="ascii")
        (root / "run/systemd/system").mkdir(parents=True)
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "mps", "gpu-0", config=[mps()])
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert "systemd does not answer" in answer[claim["metadata"]["uid"]].error
            assert await node.unprepared(claim) == ""
            assert fake.shared(0) == (0, 0)
            slices = await node.claim(namespace, "slices", "gpu-0", config=[sliced("Long")])
            assert await node.prepared(slices) == ""
