"""Addresses and routes that only some hosts have: they come back as they were, and keep no pod from starting."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed.hostnetwork import ip
from tests.agent.rdma.rails import rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


def routes(name: str, namespace: str = "") -> list[tuple[str, str, str]]:
    return sorted(
        (row["dst"], str(row.get("via", row.get("gateway", ""))), row.get("prefsrc", ""))
        for row in ip("route", "show", "dev", name, namespace=namespace)
        if row.get("protocol") != "kernel"
    )


def addresses(name: str, namespace: str = "") -> list[tuple[Any, ...]]:
    rows = ip("address", "show", "dev", name, namespace=namespace)
    return sorted(
        (each["local"], each.get("address", ""), each["prefixlen"], each["scope"], each.get("broadcast", ""))
        for row in rows
        for each in row.get("addr_info", ())
        if not each["local"].startswith("fe80")
    )


@contextmanager
def loopback(address: str) -> Iterator[None]:
    """Give the loopback device an address."""
    ip("address", "add", address, "dev", "lo")
    try:
        yield
    finally:
        ip("address", "del", address, "dev", "lo")


async def test_a_route_by_a_router_of_ipv6_comes_back(tmp_path: Path) -> None:
    """As routing daemons write them on links without IPv4 addresses (RFC 5549); the pod has it, too."""
    async with rails_below(tmp_path) as rails:
        name = rails.network.name
        ip("route", "add", "198.19.254.0/24", "via", "inet6", "fe80::99", "dev", name)
        before = routes(name)
        assert len(before) == 2
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert routes(name, namespace) == before
        await rails.networks.ending(first)
        assert routes(name) == before


async def test_addresses_for_the_link_and_with_a_peer_come_back(tmp_path: Path) -> None:
    """Of IPv4 (RFC 3927) nobody but who set it makes one for the link anew, as the kernel does of IPv6."""
    async with rails_below(tmp_path) as rails:
        name, number = rails.network.name, rails.network.number
        ip("address", "add", f"169.254.{number}.1/24", "dev", name, "scope", "link")
        ip("address", "add", "198.19.253.1", "peer", "198.19.253.2/32", "dev", name)
        ip("address", "add", "2001:2:ffff::1", "peer", "2001:2:ffff::2/128", "dev", name, "nodad")
        before = addresses(name)
        assert len(before) == 5
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert addresses(name, namespace) == before
        await rails.networks.ending(first)
        assert addresses(name) == before


async def test_a_route_with_the_address_of_another_interface_keeps_no_pod_from_starting(
    tmp_path: Path,
) -> None:
    """Routing daemons write the address of the loopback device as source: the pod has the route without, and the host as it was."""
    async with rails_below(tmp_path) as rails:
        name, source = rails.network.name, f"198.19.{rails.network.number}.77"
        with loopback(f"{source}/32"):
            ip("route", "add", "198.19.254.0/24", "via", rails.network.gateway, "dev", name, "src", source)
            own = rails.network.address.partition("/")[0]
            ip("route", "add", "198.19.252.0/24", "via", rails.network.gateway, "dev", name, "src", own)
            before = routes(name)
            first, namespace = rails.sandbox("first")
            await rails.networks.began(first)
            gateway = rails.network.gateway
            assert ("198.19.254.0/24", gateway, "") in routes(name, namespace)
            assert ("198.19.252.0/24", gateway, own) in routes(name, namespace)
            await rails.networks.ending(first)
            assert routes(name) == before


async def test_a_route_whose_gateway_is_reached_by_another_route_keeps_no_pod_from_starting(
    tmp_path: Path,
) -> None:
    """The kernel lists routes by destination, and takes them in the order in which gateways can be reached."""
    async with rails_below(tmp_path) as rails:
        name = rails.network.name
        ip("route", "add", "198.19.254.0/24", "dev", name)
        ip("route", "add", "198.19.253.0/24", "via", "198.19.254.9", "dev", name)
        before = routes(name)
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert routes(name, namespace) == before
        await rails.networks.ending(first)
        assert routes(name) == before
