"""RDMA devices by netlink: moved between network namespaces where the kernel keeps them apart.

In: a namespace, the name of an RDMA device. Out: nothing, or NotReady with what the kernel says. Numbers: include/uapi/rdma/rdma_netlink.h.
Only `rdma system set netns exclusive` asks for it; in the shared mode every namespace sees every RDMA device, and an interface brings
its GIDs along.
"""

import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from apportion.agent.network.namespaces import inside
from apportion.errors import NotReady

_FAMILY: Final = 20  # NETLINK_RDMA, include/uapi/linux/netlink.h
_GET, _SET = (5 << 10) + 1, (5 << 10) + 2  # client RDMA_NL_NLDEV in the upper bits
_INDEX, _NAME, _NAMESPACE = 1, 2, 68
_REQUEST, _ACKNOWLEDGE, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")


def move(source: Path, name: str, target: Path) -> None:
    """Move an RDMA device into another network namespace. Raises NotReady."""

    def act() -> None:
        with _opened() as link:
            index = _index(link, name)
            if index is None:
                raise NotReady(f"RDMA device {name} is not in {source}")
            opened = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _send(link, _SET, _ACKNOWLEDGE, _number(_INDEX, index) + _number(_NAMESPACE, opened))
                for _ in _answers(link):
                    pass
            finally:
                os.close(opened)

    _inside(source, act)


def is_in(namespace: Path, name: str) -> bool:
    """Say whether an RDMA device is in a namespace. Raises NotReady."""
    found: list[bool] = []

    def act() -> None:
        with _opened() as link:
            found.append(_index(link, name) is not None)

    _inside(namespace, act)
    return found[0]


def _inside(namespace: Path, act: Callable[[], None]) -> None:
    try:
        inside(namespace, act)
    except OSError as error:
        raise NotReady(f"RDMA devices of {namespace}: {error.strerror or error}") from None


def _opened() -> socket.socket:
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _FAMILY)
    link.bind((0, 0))
    return link


def _index(link: socket.socket, name: str) -> int | None:
    _send(link, _GET, _DUMP, b"")
    for attributes in _answers(link):
        if attributes.get(_NAME, b"").rstrip(b"\0") == name.encode():
            return int.from_bytes(attributes[_INDEX], sys.byteorder)
    return None


def _send(link: socket.socket, kind: int, flags: int, body: bytes) -> None:
    link.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)


def _answers(link: socket.socket) -> Iterator[dict[int, bytes]]:
    """Yield what each message says until the kernel has answered all. Raises OSError with the kernel's error."""
    while True:
        received = link.recv(1 << 16)
        while received:
            length, kind, *_ = _HEADER.unpack_from(received)
            body, received = received[_HEADER.size : length], received[(length + 3) & ~3 :]
            if kind == _DONE:
                return
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", body)
                if code:
                    raise OSError(-code, os.strerror(-code))
                return
            yield _attributes(body)


def _attributes(body: bytes) -> dict[int, bytes]:
    found = {}
    while len(body) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(body)
        found[kind & 0x3FFF] = body[_ATTRIBUTE.size : length]
        body = body[(max(length, _ATTRIBUTE.size) + 3) & ~3 :]
    return found


def _number(kind: int, value: int) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + 4, kind) + struct.pack("=I", value)
