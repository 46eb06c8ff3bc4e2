"""Virtual functions by netlink: what the physical function's driver enforces for them, read and set at its interface.

In: the physical function's interface, a function's number. Out: VirtualFunctions, or NotReady with what the kernel says. Numbers and
structures: include/uapi/linux/if_link.h; what the kernel makes of them: net/core/rtnetlink.c, do_setvfinfo and rtnl_fill_vfinfo.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from apportion.agent.network import rawnetlink
from apportion.agent.network.interface import VirtualFunction
from apportion.agent.network.namespaces import inside
from apportion.errors import NotReady

_GET, _SET = 18, 19  # RTM_GETLINK, RTM_SETLINK, include/uapi/linux/rtnetlink.h
_LINK: Final = struct.Struct("=BxHiII")  # struct ifinfomsg
_FUNCTIONS, _FUNCTION, _MASK = 22, 1, 29  # IFLA_VFINFO_LIST, IFLA_VF_INFO, IFLA_EXT_MASK
_WITHOUT_STATISTICS: Final = 1 | 8  # RTEXT_FILTER_VF, RTEXT_FILTER_SKIP_STATS
_MAC, _SPOOFCHK, _TRUST, _VLANS, _VLAN = 1, 4, 9, 12, 1
_MAC_BODY: Final = struct.Struct("=I32s")
_VLAN_BODY: Final = struct.Struct("=III")
_FLAG: Final = struct.Struct("=II")
_PROTOCOLS: Final = {"802.1q": b"\x81\x00", "802.1ad": b"\x88\xa8"}
"""In network byte order (include/uapi/linux/if_ether.h)."""
_UNSUPPORTED: Final = 0xFFFFFFFF
"""The driver knows no such setting."""


def read(namespace: Path, interface: int, physical: str, number: int) -> VirtualFunction | None:
    """Return what is set for a function; None when this interface is not its physical function's. Raises NotReady.

    `interface` is an index, `physical` the bus id of the physical function.
    """

    def act() -> list[bytes]:
        with rawnetlink.opened(socket.NETLINK_ROUTE) as link:
            mask = rawnetlink.attribute(_MASK, struct.pack("=I", _WITHOUT_STATISTICS))
            rawnetlink.send(link, _GET, rawnetlink.ACKNOWLEDGE, _link(interface) + mask)
            return list(rawnetlink.answers(link))

    try:
        found = inside(namespace, act)
    except OSError as error:
        raise NotReady(f"virtual functions of {physical}: {error.strerror or error}") from None
    for body in found:
        for function in _functions(body[_LINK.size :]):
            if struct.unpack_from("=I", function[_MAC])[0] == number:
                return _function(physical, number, function)
    return None


def apply(namespace: Path, interface: int, wanted: VirtualFunction, *, own_mac: str = "") -> None:
    """Set what is not as wanted. Raises NotReady naming what the driver refuses, or that there is no such function."""
    now = read(namespace, interface, wanted.physical, wanted.number)
    if now is None:
        raise NotReady(f"{wanted.physical} has no virtual function {wanted.number}")
    change(namespace, interface, now, wanted, own_mac=own_mac)


def change(
    namespace: Path, interface: int, now: VirtualFunction, wanted: VirtualFunction, *, own_mac: str = ""
) -> None:
    """Set what is not as wanted of a function that is as `now` says. Raises NotReady naming what the driver refuses.

    Before anybody has set a MAC address it is zero, and some drivers do not take that back (qlogic/qede/qede_main.c,
    qede_set_vf_mac): then `own_mac` is set, the address that the function had itself.
    """
    number = wanted.number
    if wanted.mac != now.mac:
        mac = _MAC_BODY.pack(number, bytes.fromhex(wanted.mac.replace(":", "")))
        refused = _set(namespace, interface, _MAC, mac)
        if refused == errno.EINVAL and own_mac and not wanted.mac.strip("0:"):
            mac = _MAC_BODY.pack(number, bytes.fromhex(own_mac.replace(":", "")))
            refused = _set(namespace, interface, _MAC, mac)
        _say(wanted, f"MAC address {wanted.mac}", refused)
    if (wanted.vlan, wanted.qos, wanted.protocol) != (now.vlan, now.qos, now.protocol):
        vlan = _VLAN_BODY.pack(number, wanted.vlan, wanted.qos) + _PROTOCOLS[wanted.protocol] + bytes(2)
        refused = _set(namespace, interface, _VLANS, rawnetlink.attribute(_VLAN, vlan))
        _say(wanted, f"VLAN {wanted.vlan}", refused)
    for name, kind, flag, former in (
        ("spoofchk", _SPOOFCHK, wanted.spoofchk, now.spoofchk),
        ("trust", _TRUST, wanted.trust, now.trust),
    ):
        if flag not in (None, former):
            _say(wanted, name, _set(namespace, interface, kind, _FLAG.pack(number, int(bool(flag)))))


def _set(namespace: Path, interface: int, kind: int, body: bytes) -> int:
    """Set one thing; returns the kernel's error, 0 for none."""
    function = rawnetlink.attribute(_FUNCTION, rawnetlink.attribute(kind, body))

    def act() -> None:
        with rawnetlink.opened(socket.NETLINK_ROUTE) as link:
            message = _link(interface) + rawnetlink.attribute(_FUNCTIONS, function)
            rawnetlink.send(link, _SET, rawnetlink.ACKNOWLEDGE, message)
            for _ in rawnetlink.answers(link):
                pass

    try:
        inside(namespace, act)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _say(wanted: VirtualFunction, what: str, refused: int) -> None:
    if refused:
        raise NotReady(
            f"virtual function {wanted.number} of {wanted.physical}: {what}: {os.strerror(refused)}"
        )


def _link(interface: int) -> bytes:
    return _LINK.pack(socket.AF_UNSPEC, 0, interface, 0, 0)


def _functions(body: bytes) -> Iterator[dict[int, bytes]]:
    for kind, functions in rawnetlink.attributes(body):
        if kind == _FUNCTIONS:
            for _, function in rawnetlink.attributes(functions):
                yield dict(rawnetlink.attributes(function))


def _function(physical: str, number: int, found: dict[int, bytes]) -> VirtualFunction:
    tag = dict(rawnetlink.attributes(found[_VLANS]))[_VLAN]
    _, vlan, qos = _VLAN_BODY.unpack_from(tag)
    protocol = tag[_VLAN_BODY.size : _VLAN_BODY.size + 2]
    return VirtualFunction(
        physical=physical,
        number=number,
        mac=found[_MAC][4:10].hex(":"),
        vlan=vlan,
        qos=qos,
        protocol=next((name for name, code in _PROTOCOLS.items() if code == protocol), "802.1q"),
        spoofchk=_flag(found.get(_SPOOFCHK)),
        trust=_flag(found.get(_TRUST)),
    )


def _flag(body: bytes | None) -> bool | None:
    setting = _FLAG.unpack_from(body)[1] if body is not None else _UNSUPPORTED
    return None if setting == _UNSUPPORTED else bool(setting)
