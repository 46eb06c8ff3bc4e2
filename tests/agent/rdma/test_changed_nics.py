"""What is published of a NIC follows the host: its interface gets another name, its link comes up later or with another rate."""

from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.devices.rdma.backend import RdmaBackend
from testbed.eventually import eventually
from testbed.fakes.rdma import RdmaHost
from tests.agent.places import RDMA
from tests.agent.simulatednode import SimulatedNode


@pytest.fixture
def host(tmp_path: Path) -> RdmaHost:
    """Give a host with a NIC whose link has not come up, and whose interface nobody has named yet."""
    made = RdmaHost(tmp_path / "root")
    made.add("mlx5_0", "0000:9d:00.0", link="Ethernet", rate="2.5 Gb/sec (1X SDR)", interface="eth4")
    return made


def test_a_nic_says_what_it_is_now(host: RdmaHost) -> None:
    """It was known by what an agent had seen at its start."""
    backend = RdmaBackend(host.root)
    (before,) = backend.devices()
    assert not backend.incomplete()
    host.rename_interface("mlx5_0", "rail0")
    host.train("mlx5_0", "400 Gb/sec (4X NDR)")
    assert backend.incomplete()
    more = {"interface": "rail0", "gigabitsPerSecond": 400}
    assert backend.devices() == (replace(before, attributes={**before.attributes, **more}),)
    assert not backend.incomplete()


def test_a_nic_that_has_no_link_for_a_while_says_what_it_said(host: RdmaHost) -> None:
    """The least rate that there is would be news twice for each cable that is plugged in anew."""
    host.train("mlx5_0", "400 Gb/sec (4X NDR)")
    backend = RdmaBackend(host.root)
    before = backend.devices()
    host.set_port("mlx5_0", "1: DOWN")
    host.train("mlx5_0", "2.5 Gb/sec (1X SDR)")
    assert not backend.incomplete()
    assert backend.devices() == before


async def test_claims_find_a_nic_by_what_it_is_now(host: RdmaHost, node: SimulatedNode) -> None:
    """A claim for 400 Gb/s was refused, and one for its interface: a host had none of that name."""

    async def published() -> tuple[object, object]:
        found = (await eventually(lambda: node.devices(RDMA), bool))["nic-mlx5-0"]["attributes"]
        return found["gigabitsPerSecond"]["int"], found["interface"]["string"]

    assert await published() == (2, "eth4")
    host.rename_interface("mlx5_0", "rail0")
    host.train("mlx5_0", "400 Gb/sec (4X NDR)")
    assert await eventually(published, lambda found: found == (400, "rail0"))
