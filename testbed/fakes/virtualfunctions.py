"""The kernel's side of virtual functions: what RTM_SETLINK and RTM_GETLINK say about them, for a machine whose NICs have none.

In: bytes of netlink messages about one interface, which counts as a physical function's. Out: the kernel's answers, and what is set, in
a file: agents that are killed find it as it was. What it believes, and where that is in the kernel's source:

| belief | source |
|---|---|
| a list that holds anything but IFLA_VF_INFO is EINVAL | net/core/rtnetlink.c, do_setlink |
| a structure that is too short is ERANGE | the same, ifla_vf_policy; lib/nlattr.c, validate_nla |
| one message sets each of its settings in turn, and stops at the first that the driver refuses | the same, do_setvfinfo |
| a setting without a function of the driver is EOPNOTSUPP, whatever a VLAN list holds | the same |
| a VLAN list holds exactly one IFLA_VF_VLAN_INFO, as long as the structure with its padding | the same |
| an unknown number of a function is EINVAL | drivers/net/ethernet/mellanox/mlx5/core/eswitch.c, mlx5_eswitch_get_vport |
| without RTEXT_FILTER_VF nothing is said of functions | net/core/rtnetlink.c, rtnl_fill_vf |
| spoofchk and trust are -1 where the driver does not know them | the same, rtnl_fill_vfinfo |
| zero is refused as MAC address by some drivers, which have it before one is set | drivers/net/ethernet/qlogic/qede/qede_main.c, qede_set_vf_mac |
"""

import errno
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from apportion.agent.network import rawnetlink

FILE = "virtual-functions.json"
_GET, _SET, _NEW, _ERROR = 18, 19, 16, 2
_NAME, _LIST, _INFO, _MASK = 3, 22, 1, 29
_MAC, _SPOOFCHK, _TRUST, _VLANS, _VLAN = 1, 4, 9, 12, 1
_SIZES = {_MAC: 36, _SPOOFCHK: 8, _TRUST: 8}
_LINK = struct.Struct("=BxHiII")
_PROTOCOLS = {b"\x81\x00": "802.1q", b"\x88\xa8": "802.1ad"}
UNTOUCHED: dict[str, Any] = {
    "mac": "00:00:00:00:00:00", "vlan": 0, "qos": 0, "protocol": "802.1q", "spoofchk": True, "trust": False,
}  # fmt: skip
"""A function that nobody has set up."""


class FakeFunctions:
    """The functions of one interface."""

    def __init__(self, file: Path) -> None:
        """`file` holds all of it."""
        self._file = file
        self.asked: list[bytes] = []
        """The bodies of the messages by which this process has set something."""

    def make(self, physical: str, *functions: dict[str, Any], refuses: tuple[str, ...] = ()) -> None:
        """Give an interface functions; `refuses`: settings that its driver does not know, or `zero`."""
        self._write({"physical": physical, "functions": list(functions), "refuses": list(refuses)})

    def set(self, **settings: Any) -> None:
        """Change function 0, as an administrator does."""
        state = self._read()
        state["functions"][0] |= settings
        self._write(state)

    def refuse(self, *settings: str) -> None:
        """Have the driver know these settings no more."""
        self._write(self._read() | {"refuses": list(settings)})

    def now(self) -> dict[str, Any]:
        """Return what is set for function 0."""
        found: dict[str, Any] = self._read()["functions"][0]
        return found

    def install(self) -> None:
        """Answer this process's route sockets that the product opens by hand; others are the kernel's."""
        real = rawnetlink.opened

        def opened(family: int) -> Any:
            return _Link(self) if family == socket.NETLINK_ROUTE else real(family)

        rawnetlink.opened = opened

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Answer them for a while."""
        real = rawnetlink.opened
        self.install()
        try:
            yield
        finally:
            rawnetlink.opened = real

    def answer(self, request: bytes) -> bytes:
        """Answer one message."""
        length, kind, _, sequence, _ = rawnetlink.HEADER.unpack_from(request)
        body = request[rawnetlink.HEADER.size : length]
        index = _LINK.unpack_from(body)[2]
        own = dict(rawnetlink.attributes(body[_LINK.size :]))
        code, answer = 0, b""
        try:
            name = socket.if_indextoname(index)
            if kind == _SET:
                self.asked.append(body)
                self._set(name, own[_LIST])
            elif kind == _GET:
                mask = struct.unpack("=I", own.get(_MASK, bytes(4)))[0]
                said = rawnetlink.attribute(_NAME, name.encode() + b"\0")
                said += self._list(name) if mask & 1 else b""
                answer = _message(_NEW, sequence, _LINK.pack(0, 1, index, 0, 0) + said)
        except OSError as error:
            code = error.errno or errno.EIO
        return answer + _message(_ERROR, sequence, struct.pack("=i", -code) + request[:16])

    def _set(self, name: str, functions: bytes) -> None:
        for kind, function in rawnetlink.attributes(functions):
            if kind != _INFO:
                raise OSError(errno.EINVAL, "")
            for setting, body in rawnetlink.attributes(function):
                if len(body) < _SIZES.get(setting, 0):
                    raise OSError(errno.ERANGE, "")
                self._put(name, setting, body)

    def _put(self, name: str, setting: int, body: bytes) -> None:
        state = self._read()
        title = {_MAC: "mac", _VLANS: "vlan", _SPOOFCHK: "spoofchk", _TRUST: "trust"}[setting]
        if state["physical"] != name or title in state["refuses"]:
            raise OSError(errno.EOPNOTSUPP, "")
        if setting == _VLANS:
            ((kind, body),) = rawnetlink.attributes(body)
            if kind != _VLAN or len(body) < 16:
                raise OSError(errno.EINVAL, "")
        (number,) = struct.unpack_from("=I", body)
        if number >= len(state["functions"]):
            raise OSError(errno.EINVAL, "")
        function = state["functions"][number]
        if setting == _MAC:
            mac = body[4:10]
            if mac[0] & 1 or (not any(mac) and "zero" in state["refuses"]):
                raise OSError(errno.EINVAL, "")
            function["mac"] = mac.hex(":")
        elif setting == _VLANS:
            _, function["vlan"], function["qos"] = struct.unpack_from("=III", body)
            function["protocol"] = _PROTOCOLS[body[12:14]]
        else:
            function[title] = bool(struct.unpack("=II", body)[1])
        self._write(state)

    def _list(self, name: str) -> bytes:
        state = self._read()
        if state["physical"] != name:
            return b""
        functions = b"".join(
            rawnetlink.attribute(_INFO, b"".join(_settings(number, function, state["refuses"])))
            for number, function in enumerate(state["functions"])
        )
        return rawnetlink.attribute(_LIST, functions)

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.read_text(encoding="ascii"))
        return found

    def _write(self, state: dict[str, Any]) -> None:
        self._file.write_text(json.dumps(state), encoding="ascii")


class _Link:
    """A socket that the fake answers."""

    def __init__(self, kernel: FakeFunctions) -> None:
        self._kernel = kernel
        self._answer = b""

    def send(self, request: bytes) -> None:
        self._answer = self._kernel.answer(request)

    def recv(self, _size: int) -> bytes:
        return self._answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def _settings(number: int, function: dict[str, Any], refused: list[str]) -> Iterator[bytes]:
    mac = bytes.fromhex(function["mac"].replace(":", ""))
    yield rawnetlink.attribute(_MAC, struct.pack("=I32s", number, mac))
    protocol = next(code for code, name in _PROTOCOLS.items() if name == function["protocol"])
    vlan = struct.pack("=III", number, function["vlan"], function["qos"]) + protocol + bytes(2)
    yield rawnetlink.attribute(_VLANS, rawnetlink.attribute(_VLAN, vlan))
    for kind, title in ((_SPOOFCHK, "spoofchk"), (_TRUST, "trust")):
        setting = 0xFFFFFFFF if title in refused else int(function[title])
        yield rawnetlink.attribute(kind, struct.pack("=II", number, setting))


def _message(kind: int, sequence: int, body: bytes) -> bytes:
    whole = rawnetlink.HEADER.pack(rawnetlink.HEADER.size + len(body), kind, 0, sequence, 0) + body
    return whole + bytes(-len(whole) % 4)
