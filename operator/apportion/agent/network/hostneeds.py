"""The interfaces that the node itself needs: no claim can have them.

In: a network namespace, the addresses of the Node. Out: a reason for each interface, or NotReady with what the kernel says. What claims
are given and what slices offer is decided here, by one rule.
"""

import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from apportion.agent.network.netlink import ask

# include/uapi/linux/rtnetlink.h
_UNICAST: Final = 1
_NODES_TABLES: Final = frozenset({254, 253})
"""main and default, which the kernel asks about all packets (ip-rule(8)); a rail of several has its own default route in a table of its own."""


def host_needs(namespace: Path, node_addresses: Collection[str]) -> dict[str, str]:
    """Return why the node itself needs each interface, by its name; "" for one that it does not need. Raises NotReady."""
    return ask(namespace, lambda netlink: _needs(netlink, node_addresses))


def _needs(netlink: Any, node_addresses: Collection[str]) -> dict[str, str]:
    links = list(netlink.get_links())
    names = {raw["index"]: raw.get_attr("IFLA_IFNAME") for raw in links}
    found = dict.fromkeys(names.values(), "")
    reasons = (
        *_addressed(netlink, node_addresses),
        *((raw["index"], "it is a port of a bond or bridge") for raw in links if raw.get_attr("IFLA_MASTER")),
        *((index, "a default route of the node goes through it") for index in _default_routes(netlink)),
        *((index, f"{upper} is stacked on it") for index, upper in _stacked(links)),
    )
    for index, why in reasons:
        if index in names and not found[names[index]]:
            found[names[index]] = why
    return found


def _addressed(netlink: Any, node_addresses: Collection[str]) -> Iterator[tuple[int, str]]:
    for raw in netlink.get_addr():
        address = raw.get_attr("IFA_LOCAL") or raw.get_attr("IFA_ADDRESS")
        if address in node_addresses:
            yield raw["index"], f"it has the node's address {address}"


def _default_routes(netlink: Any) -> Iterator[int]:
    for family in (socket.AF_INET, socket.AF_INET6):
        for raw in netlink.get_routes(family=family):
            table = raw.get_attr("RTA_TABLE") or raw["table"]
            if raw["dst_len"] == 0 and raw["type"] == _UNICAST and table in _NODES_TABLES:
                hops = (hop["oif"] for hop in raw.get_attr("RTA_MULTIPATH") or ())
                yield from (index for index in (raw.get_attr("RTA_OIF"), *hops) if index is not None)


def _stacked(links: Collection[Any]) -> Iterator[tuple[int, str]]:
    for raw in links:
        # The index of a peer in another namespace is that of there; a veth's is its peer's, which is not stacked on it.
        lower = raw.get_attr("IFLA_LINK") if raw.get_attr("IFLA_LINK_NETNSID") is None else None
        about = raw.get_attr("IFLA_LINKINFO")
        veth = about is not None and about.get_attr("IFLA_INFO_KIND") == "veth"
        if lower is not None and not veth and raw["index"] != lower:
            yield lower, raw.get_attr("IFLA_IFNAME")
