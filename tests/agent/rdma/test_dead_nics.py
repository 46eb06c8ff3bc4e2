"""A NIC whose driver has given it up while its interface was in a pod: the interface does not come back, and its claim ends all the same."""

from pathlib import Path

import pytest

from testbed.hostnetwork import ip
from tests.agent.rdma.rails import Rails, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


async def without_interfaces(rails: Rails) -> None:
    """Begin the pod, and end both interfaces in it, as a driver does that lets go of its device."""
    first, namespace = rails.sandbox("first")
    await rails.networks.began(first)
    ip("link", "delete", rails.network.name, namespace=namespace)


async def test_a_claim_ends_though_its_nic_is_plugged_and_has_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firmware that has died, or another driver (vfio-pci): kubelet asked for ever, and the pod never ended. Before, it may be starting anew."""
    async with rails_below(tmp_path) as rails:
        rails.on_pci(monkeypatch)
        await without_interfaces(rails)
        for name in ("mlx5_0", "mlx5_1"):
            rails.host.let_go(name)
        refused = [*await rails.refusals(), *await rails.refusals(), *await rails.refusals()]
        assert 0 < len(refused) < 9
        assert all("is neither in the pod nor on the host" in each for each in refused)
        assert await rails.refusals() == []
        assert rails.steps() == []


async def test_a_claim_waits_for_a_nic_that_has_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interface is somewhere: the pod has taken it to a namespace of its own."""
    async with rails_below(tmp_path) as rails:
        rails.on_pci(monkeypatch)
        await without_interfaces(rails)
        assert len([*await rails.refusals(), *await rails.refusals()]) == 6
