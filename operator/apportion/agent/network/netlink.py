"""Network interfaces by netlink: read, moved between namespaces, set up.

In: a network namespace, an Interface. Out: Interfaces, or NotReady with what the kernel says. Every call opens its own socket inside of
the namespace. pyroute2 is imported where it is used: most nodes move no NIC, and it takes time and memory.
"""

import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from ipaddress import ip_interface
from pathlib import Path
from typing import Any, Final, TypeVar

from apportion.agent.network.interface import Address, Interface, Route
from apportion.agent.network.namespaces import inside
from apportion.errors import NotReady

R = TypeVar("R")
# include/uapi/linux/rtnetlink.h, if_addr.h, if.h
_LOCAL_TABLE: Final = 255
_MADE_BY_OTHERS: Final = frozenset({2, 9})
"""By the kernel with an address, and by a router's advertisements: such routes come by themselves."""
_UNICAST: Final = 1
_ON_LINK: Final = 4
_LINK_SCOPE: Final = 253
_PERMANENT: Final = 0x80
_UP: Final = 1
_LOOKS: Final = 10
"""Tries to list what others change meanwhile: each pod that starts on the node makes interfaces."""
SETTABLE: Final = 0x80 | 0x100 | 0x200 | 0x1000
"""Flags that are put right: IFF_NOARP, IFF_PROMISC, IFF_ALLMULTI, IFF_MULTICAST."""


def interfaces(namespace: Path) -> tuple[Interface, ...]:
    """Return all interfaces of a namespace, without their routes. Raises NotReady."""
    return ask(namespace, lambda netlink: tuple(_interface(raw) for raw in netlink.get_links()))


def read(namespace: Path, name: str) -> Interface | None:
    """Return one interface with addresses and routes, None when there is none of this name. Raises NotReady."""

    def look(netlink: Any) -> Interface | None:
        found = next((raw for raw in netlink.get_links() if raw.get_attr("IFLA_IFNAME") == name), None)
        if found is None:
            return None
        index = found["index"]
        addresses = tuple(_addresses(netlink.get_addr(index=index)))
        routes = tuple(_routes(netlink.get_routes(family=socket.AF_INET), index))
        routes += tuple(_routes(netlink.get_routes(family=socket.AF_INET6), index))
        return _interface(found, addresses, routes)

    return ask(namespace, look)


def mark(namespace: Path, index: int, alias: str) -> None:
    """Give an interface its alias. Raises NotReady."""
    ask(namespace, lambda netlink: netlink.link("set", index=index, ifalias=alias))


def move(source: Path, index: int, target: Path, name: str) -> None:
    """Move an interface into another namespace under this name, in one step. Raises NotReady: the name may be taken there."""

    def act(netlink: Any) -> None:
        opened = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            netlink.link("set", index=index, ifname=name, net_ns_fd=opened)
        finally:
            os.close(opened)

    ask(source, act)


def drop_altnames(namespace: Path, index: int, altnames: Collection[str]) -> None:
    """Take further names from an interface. Raises NotReady."""
    if altnames:
        ask(namespace, lambda netlink: netlink.link("property_del", index=index, altname=altnames))


def rename(namespace: Path, index: int, name: str) -> str:
    """Give an interface another name; it is down afterwards. Returns why the kernel refuses: the name may be taken. Raises NotReady."""

    def act(netlink: Any) -> str:
        netlink.link("set", index=index, state="down")
        return _refusal(f"name {name}", lambda: netlink.link("set", index=index, ifname=name))

    return ask(namespace, act)


def set_up(namespace: Path, index: int, wanted: Interface, *, yields: bool = False) -> tuple[str, ...]:
    """Give an interface what it has not yet of `wanted`; returns which names, addresses and routes the kernel refuses, and why.

    Raises NotReady where it refuses MAC address, MTU, flags, queue or state, unless that `yields`: then these are returned, too.
    """

    def act(netlink: Any) -> tuple[str, ...]:
        def link(what: str, **words: Any) -> str:
            refusal = _refusal(what, lambda: netlink.link("set", index=index, **words))
            if refusal and not yields:
                raise NotReady(refusal)
            return refusal

        now = _interface(next(iter(netlink.get_links(index))))
        refused: list[str] = []
        if now.mac != wanted.mac:
            refused.append(link(f"MAC address {wanted.mac}", address=wanted.mac))
        if now.mtu != wanted.mtu:
            refused.append(link(f"MTU {wanted.mtu}", mtu=wanted.mtu))
        if wanted.flags not in (None, now.flags):
            refused.append(link("flags", flags=wanted.flags, change=SETTABLE))
        if wanted.queue not in (None, now.queue):
            refused.append(link(f"queue of {wanted.queue}", txqlen=wanted.queue))
        refused += _set_altnames(netlink, now, wanted)
        refused += [_add_address(netlink, index, each) for each in wanted.addresses]
        refused.append(link("state", state="up" if wanted.up else "down"))
        # Routes go with an interface that goes down, and cannot be added before it is up, nor before their gateway can be reached.
        routes = sorted(wanted.routes if wanted.up else (), key=lambda route: route.gateway != "")
        refused += [_add_route(netlink, index, route) for route in routes]
        return tuple(text for text in refused if text)

    return ask(namespace, act)


def _set_altnames(netlink: Any, now: Interface, wanted: Interface) -> Iterator[str]:
    if wanted.altnames is None:
        return
    has, gets = set(now.altnames or ()), set(wanted.altnames)
    for command, altnames in (("property_del", has - gets), ("property_add", gets - has)):
        for each in sorted(altnames):
            yield _refusal(f"name {each}", partial(netlink.link, command, index=now.index, altname=each))


def _add_address(netlink: Any, index: int, wanted: Address) -> str:
    more: dict[str, Any] = {"label": wanted.label} if wanted.label else {}
    broadcast = wanted.broadcast
    if broadcast is None and ":" not in wanted.address and wanted.prefix < 31:
        # Without it a network has no broadcasts.
        broadcast = str(ip_interface(f"{wanted.address}/{wanted.prefix}").network.broadcast_address)
    more |= {"broadcast": broadcast} if broadcast else {}
    return _refusal(
        f"address {wanted.address}/{wanted.prefix}",
        lambda: netlink.addr(
            "replace",
            index=index,
            local=wanted.address,
            address=wanted.peer or wanted.address,
            prefixlen=wanted.prefix,
            scope=wanted.scope,
            **more,
        ),
    )


def _add_route(netlink: Any, index: int, wanted: Route) -> str:
    words: dict[str, Any] = {"dst": wanted.destination, "oif": index, "table": wanted.table}
    words["family"] = socket.AF_INET6 if ":" in wanted.destination else socket.AF_INET
    if ":" in wanted.gateway and words["family"] == socket.AF_INET:
        words["via"] = {"family": socket.AF_INET6, "addr": wanted.gateway}
    elif wanted.gateway:
        words["gateway"] = wanted.gateway
    elif words["family"] == socket.AF_INET:
        words["scope"] = _LINK_SCOPE
    words |= {"prefsrc": wanted.source} if wanted.source else {}
    words |= {"priority": wanted.metric} if wanted.metric else {}
    words |= {"flags": _ON_LINK} if wanted.on_link else {}
    return _refusal(f"route to {wanted.destination}", lambda: netlink.route("replace", **words))


def _refusal(what: str, act: Callable[[], object]) -> str:
    """Return why the kernel refuses an act, "" if it does not."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        act()
    except NetlinkError as error:
        return f"{what}: {_text(error)}"
    return ""


def ask(namespace: Path, act: Callable[[Any], R]) -> R:
    """Return what `act` finds out by a socket in the namespace; it either lists or changes something. Raises NotReady with what the kernel says."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkDumpInterrupted, NetlinkError

    def opened() -> R:
        with IPRoute() as netlink:
            return act(netlink)

    for _ in range(_LOOKS):
        try:
            return inside(namespace, opened)
        except NetlinkDumpInterrupted:
            continue
        except NetlinkError as error:
            raise NotReady(_text(error)) from None
        except OSError as error:
            raise NotReady(f"network namespace {namespace}: {error.strerror or error}") from None
    raise NotReady("interfaces changed while they were read")


def _text(error: Any) -> str:
    """Return what a NetlinkError says: the text of the errno, and the kernel's own if it has one."""
    return f"{os.strerror(error.code)}{': ' + error.args[1] if len(error.args) > 1 and error.args[1] else ''}"


def _interface(raw: Any, addresses: tuple[Address, ...] = (), routes: tuple[Route, ...] = ()) -> Interface:
    properties = raw.get_attr("IFLA_PROP_LIST")
    return Interface(
        index=raw["index"],
        name=raw.get_attr("IFLA_IFNAME"),
        mac=raw.get_attr("IFLA_ADDRESS") or "",
        mtu=raw.get_attr("IFLA_MTU") or 0,
        up=bool(raw["flags"] & _UP),
        parent=(raw.get_attr("IFLA_PARENT_DEV_NAME") or "") if raw.get_attr("IFLA_PARENT_DEV_BUS_NAME") == "pci" else "",
        permanent=raw.get_attr("IFLA_PERM_ADDRESS") or "",
        alias=raw.get_attr("IFLA_IFALIAS") or "",
        master=raw.get_attr("IFLA_MASTER") or 0,
        addresses=addresses,
        routes=routes,
        flags=raw["flags"] & SETTABLE,
        queue=raw.get_attr("IFLA_TXQLEN"),
        altnames=tuple(properties.altnames()) if properties is not None else (),
    )  # fmt: skip


def _addresses(rows: Iterable[Any]) -> Iterable[Address]:
    for raw in rows:
        lasting = raw["family"] == socket.AF_INET or (raw.get_attr("IFA_FLAGS") or raw["flags"]) & _PERMANENT
        # The kernel makes link-local ones of IPv6 itself, and a router's advertisements the others that do not last.
        if lasting and (raw["family"] == socket.AF_INET or raw["scope"] != _LINK_SCOPE):
            other = raw.get_attr("IFA_ADDRESS")
            text = raw.get_attr("IFA_LOCAL") or other
            label = raw.get_attr("IFA_LABEL") or ""
            yield Address(
                text,
                raw["prefixlen"],
                label=label if ":" in label else "",
                peer=other if other != text else "",
                broadcast=raw.get_attr("IFA_BROADCAST") or "",
                scope=raw["scope"],
            )


def _routes(rows: Iterable[Any], index: int) -> Iterable[Route]:
    for raw in rows:
        table = raw.get_attr("RTA_TABLE") or raw["table"]
        if raw.get_attr("RTA_OIF") != index or raw["proto"] in _MADE_BY_OTHERS:
            continue
        if table == _LOCAL_TABLE or raw["type"] != _UNICAST:
            continue
        via = raw.get_attr("RTA_VIA") or {}
        anywhere = "::" if raw["family"] == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - a destination
        yield Route(
            destination=f"{raw.get_attr('RTA_DST') or anywhere}/{raw['dst_len']}",
            gateway=raw.get_attr("RTA_GATEWAY") or via.get("addr", ""),
            source=raw.get_attr("RTA_PREFSRC") or "",
            table=table,
            metric=raw.get_attr("RTA_PRIORITY") or 0,
            on_link=bool(raw["flags"] & _ON_LINK),
        )
