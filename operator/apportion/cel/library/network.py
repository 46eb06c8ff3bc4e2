"""IP addresses and networks (apiserver `library/ip.go`, `library/cidr.go`); zones and IPv4 inside IPv6 are errors."""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

from apportion.cel.library.functions import declare, first, own_type, size_of, succeeds, tenth, twice
from apportion.cel.values import CelFailure, Value, shown

_BITS: Final = re.compile(r"0|[1-9]\d{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ip:
    """An address."""

    address: IPv4Address | IPv6Address

    @property
    def cost_size(self) -> int:
        """Bytes of the address."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network as written: its address may have bits set after the prefix."""

    address: IPv4Address | IPv6Address
    bits: int

    @property
    def cost_size(self) -> int:
        """Bytes of the prefix."""
        return -(-self.bits // 8)

    @property
    def network(self) -> Any:
        """The network with all bits after the prefix cleared."""
        return ip_network((self.address, self.bits), strict=False)


own_type("net.IP", Ip)
own_type("net.CIDR", Cidr)


def _ip(text: str) -> Ip:
    try:
        address = ip_address(text)
    except (AddressValueError, ValueError):
        raise CelFailure(f"IP Address {shown(text)!r} parse error during conversion from string") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise CelFailure(f"IP address {shown(text)!r} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise CelFailure(f"IPv4-mapped IPv6 address {shown(text)!r} is not allowed")
    return Ip(address)


def _cidr(text: str) -> Cidr:
    host, slash, bits = text.rpartition("/")
    refused = CelFailure(f"network address parse error during conversion from string: {shown(text)!r}")
    if not slash or not _BITS.fullmatch(bits):
        raise refused
    try:
        address = _ip(host).address
    except CelFailure:
        raise refused from None
    if int(bits) > address.max_prefixlen:
        raise refused
    return Cidr(address, int(bits))


def _is_local_multicast(ip: Ip) -> bool:
    packed = ip.address.packed
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_link_local(ip: Ip) -> bool:
    packed = ip.address.packed
    return packed[:2] == b"\xa9\xfe" if len(packed) == 4 else packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _is_global(ip: Ip) -> bool:
    address = ip.address
    if address.packed == b"\xff\xff\xff\xff":
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or _is_link_local(ip))


def _contains_ip(net: Cidr, ip: Ip) -> bool:
    return ip.address.version == net.address.version and ip.address in net.network


def _contains_cidr(net: Cidr, other: Cidr) -> bool:
    return (
        net.address.version == other.address.version
        and net.bits <= other.bits
        and other.address in net.network
    )


def _contains_ip_cost(args: tuple[Value, ...], _: Value) -> int:
    return tenth(2 * size_of(args[0])) + (tenth(len(args[1])) if type(args[1]) is str else 0)


def _contains_cidr_cost(args: tuple[Value, ...], found: Value) -> int:
    return _contains_ip_cost(args, found) + tenth(size_of(args[0])) + 1


OVERLOADS = (
    declare("ip(string) -> net.IP", _ip, first),
    declare("isIP(string) -> bool", succeeds(_ip), first),
    declare("ip.isCanonical(string) -> bool", lambda text: str(_ip(text).address) == text, twice),
    declare("net.IP family() -> int", lambda ip: ip.address.version),
    declare("net.IP isUnspecified() -> bool", lambda ip: ip.address.is_unspecified),
    declare("net.IP isLoopback() -> bool", lambda ip: ip.address.is_loopback),
    declare("net.IP isLinkLocalMulticast() -> bool", _is_local_multicast),
    declare("net.IP isLinkLocalUnicast() -> bool", _is_link_local),
    declare("net.IP isGlobalUnicast() -> bool", _is_global),
    declare("string(net.IP) -> string", lambda ip: str(ip.address)),
    declare("cidr(string) -> net.CIDR", _cidr, first),
    declare("isCIDR(string) -> bool", succeeds(_cidr), first),
    declare(
        "net.CIDR containsIP(string) -> bool",
        lambda net, text: _contains_ip(net, _ip(text)),
        _contains_ip_cost,
    ),
    declare("net.CIDR containsIP(net.IP) -> bool", _contains_ip, _contains_ip_cost),
    declare(
        "net.CIDR containsCIDR(string) -> bool",
        lambda net, text: _contains_cidr(net, _cidr(text)),
        _contains_cidr_cost,
    ),
    declare("net.CIDR containsCIDR(net.CIDR) -> bool", _contains_cidr, _contains_cidr_cost),
    declare("net.CIDR ip() -> net.IP", lambda net: Ip(net.address)),
    declare("net.CIDR prefixLength() -> int", lambda net: net.bits),
    declare("net.CIDR masked() -> net.CIDR", lambda net: Cidr(net.network.network_address, net.bits)),
    declare("string(net.CIDR) -> string", lambda net: f"{net.address}/{net.bits}"),
)
