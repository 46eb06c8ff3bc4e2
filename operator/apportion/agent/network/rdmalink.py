"""RDMA devices by netlink: moved between network namespaces where the kernel keeps them apart.

In: a namespace, the name of an RDMA device. Out: nothing, or NotReady with what the kernel says. Numbers: include/uapi/rdma/rdma_netlink.h.
Only `rdma system set netns exclusive` asks for it; in the shared mode every namespace sees every RDMA device, and an interface brings
its GIDs along.
"""

import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from apportion.agent.network import rawnetlink
from apportion.agent.network.namespaces import inside
from apportion.errors import NotReady

R = TypeVar("R")
_FAMILY: Final = 20  # NETLINK_RDMA, include/uapi/linux/netlink.h
_GET, _SET = (5 << 10) + 1, (5 << 10) + 2  # client RDMA_NL_NLDEV in the upper bits
_INDEX, _NAME, _NAMESPACE = 1, 2, 68


def move(source: Path, name: str, target: Path) -> None:
    """Move an RDMA device into another network namespace. Raises NotReady."""

    def act() -> None:
        with rawnetlink.opened(_FAMILY) as link:
            index = _index(link, name)
            if index is None:
                raise NotReady(f"RDMA device {name} is not in {source}")
            opened = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
            try:
                body = _number(_INDEX, index) + _number(_NAMESPACE, opened)
                rawnetlink.send(link, _SET, rawnetlink.ACKNOWLEDGE, body)
                for _ in rawnetlink.answers(link):
                    pass
            finally:
                os.close(opened)

    _inside(source, act)


def is_in(namespace: Path, name: str) -> bool:
    """Say whether an RDMA device is in a namespace. Raises NotReady."""

    def act() -> bool:
        with rawnetlink.opened(_FAMILY) as link:
            return _index(link, name) is not None

    return _inside(namespace, act)


def _inside(namespace: Path, act: Callable[[], R]) -> R:
    try:
        return inside(namespace, act)
    except OSError as error:
        raise NotReady(f"RDMA devices of {namespace}: {error.strerror or error}") from None


def _index(link: socket.socket, name: str) -> int | None:
    rawnetlink.send(link, _GET, rawnetlink.DUMP, b"")
    for body in rawnetlink.answers(link):
        found = dict(rawnetlink.attributes(body))
        if found.get(_NAME, b"").rstrip(b"\0") == name.encode():
            return int.from_bytes(found[_INDEX], sys.byteorder)
    return None


def _number(kind: int, value: int) -> bytes:
    return rawnetlink.attribute(kind, struct.pack("=I", value))
