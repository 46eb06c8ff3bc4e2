"""Further names of an interface (ip-link(8), `altname`): those of the host come back, those of a pod keep nothing from the host."""

from pathlib import Path

import pytest

from testbed.hostnetwork import ip
from tests.agent.rdma.rails import rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


async def test_a_further_name_that_a_pod_gives_its_interface_does_not_keep_it_from_the_host(
    tmp_path: Path,
) -> None:
    """With CAP_NET_ADMIN it may take any name that an interface of the host has: the kernel then refuses the way back."""
    async with rails_below(tmp_path) as rails:
        name, other = rails.network.name, f"{rails.network.name}x"
        ip("link", "property", "add", "dev", name, "altname", f"{name}slot3")
        # Names that the host has: of another interface, and the NIC's own.
        ip("link", "add", other, "type", "veth", "peer", "name", f"{rails.network.peer}x")
        try:
            first, namespace = rails.sandbox("first")
            await rails.networks.began(first)
            ip("link", "set", name, "down", namespace=namespace)
            ip("link", "set", name, "name", "net1", namespace=namespace)
            for each in (other, name):
                ip("link", "property", "add", "dev", "net1", "altname", each, namespace=namespace)
            ip("link", "property", "del", "dev", "net1", "altname", f"{name}slot3", namespace=namespace)
            await rails.networks.ending(first)
            rails.network.end(namespace)
            assert await rails.refusals() == []
            assert rails.where() == 2
            (row,) = ip("link", "show", name)
            assert row["altnames"] == [f"{name}slot3"]
        finally:
            ip("link", "delete", other)
