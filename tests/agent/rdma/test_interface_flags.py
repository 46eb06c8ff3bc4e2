"""Flags and queue length of an interface: the next pod has them as the host had them."""

from pathlib import Path

import pytest

from testbed.hostnetwork import ip
from tests.agent.rdma.rails import rails_below

pytestmark = pytest.mark.usefixtures("interfaces")
VOLATILE = {"LOWER_UP", "NO-CARRIER", "UP"}


def flags(name: str, namespace: str = "") -> list[str]:
    (row,) = ip("link", "show", name, namespace=namespace)
    return [*sorted(set(row["flags"]) - VOLATILE), str(row["txqlen"])]


async def test_what_a_pod_has_switched_off_at_its_interface_is_on_for_the_next_one(tmp_path: Path) -> None:
    """Without ARP nobody reaches it: the next pod would start with it, and wait in its first collective operation."""
    async with rails_below(tmp_path) as rails:
        rails.reserved_for_second()
        name = rails.network.name
        ip("link", "set", name, "allmulticast", "on")
        before = flags(name)
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert flags(name, namespace) == before
        for words in (("arp", "off"), ("multicast", "off"), ("promisc", "on"), ("txqueuelen", "1")):
            ip("link", "set", name, *words, namespace=namespace)
        ip("link", "set", name, "allmulticast", "off", namespace=namespace)
        await rails.networks.ending(first)
        assert flags(name) == before
        second, other = rails.sandbox("second")
        await rails.networks.began(second)
        await rails.networks.creating(second, rails.mounts)
        assert flags(name, other) == before
