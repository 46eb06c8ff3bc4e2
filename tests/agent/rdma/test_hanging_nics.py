"""A NIC whose firmware does not answer: what the kernel asks it for one of its files does not come back, and others are not asked for that."""

from pathlib import Path

import pytest

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.values import Health
from testbed.eventually import eventually
from testbed.fakes.rdma import RdmaHost


@pytest.mark.parametrize("file", ["ports/1/state", "fw_ver"])
async def test_others_are_well_and_are_given_away(tmp_path: Path, file: str) -> None:
    """Each question about one NIC read the files of all: no claim on the node got a NIC, and all were tainted as sick."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_0", "0000:9d:00.0")
    host.add("mlx5_1", "0000:9e:00.0", guid="1:2:3:4")
    hardware = Hardware([RdmaBackend(tmp_path)], patience=0.5)
    await eventually(hardware.discover, lambda found: len(found) == 2)
    with host.hanging("mlx5_0", file):
        health = await hardware.health()
        assert health["nic-mlx5-1"] is Health.HEALTHY
        assert (health["nic-mlx5-0"] is Health.SICK) == file.startswith("ports")
        assert len((await hardware.edits("nic-mlx5-1")).nodes) == 3
    host.set_port("mlx5_0", "4: ACTIVE")
    assert await eventually(hardware.health, lambda found: not {*found.values()} - {Health.HEALTHY})
