"""Netlink by hand: messages and attributes, where pyroute2 has no words or takes too much time.

In: bytes. Out: the bodies of the kernel's answers, or OSError with its error. Numbers: include/uapi/linux/netlink.h.
"""

import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

ACKNOWLEDGE, DUMP = 0x4, 0x300
"""Flags of a request."""
HEADER: Final = struct.Struct("=IHHII")
ATTRIBUTE: Final = struct.Struct("=HH")
ERROR, DONE = 2, 3
"""Kinds of messages that end an answer."""
_REQUEST: Final = 0x1
_NESTED: Final = 0x3FFF
"""The bits of an attribute's kind that are no flags."""


def opened(family: int) -> socket.socket:
    """Open a socket in the network namespace of this thread."""
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
    link.bind((0, 0))
    return link


def send(link: socket.socket, kind: int, flags: int, body: bytes) -> None:
    """Send one request."""
    link.send(HEADER.pack(HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)


def answers(link: socket.socket) -> Iterator[bytes]:
    """Yield the bodies of the answers until the kernel has said all. Raises OSError with the kernel's error."""
    while True:
        received = link.recv(1 << 18)
        while received:
            length, kind, *_ = HEADER.unpack_from(received)
            body, received = received[HEADER.size : length], received[(length + 3) & ~3 :]
            if kind == DONE:
                return
            if kind == ERROR:
                (code,) = struct.unpack_from("=i", body)
                if code:
                    raise OSError(-code, os.strerror(-code))
                return
            yield body


def attribute(kind: int, body: bytes) -> bytes:
    """Return an attribute; a nested one has attributes as its body."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(body), kind) + body + bytes(-len(body) % 4)


def attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of each attribute; a kind may come more than once."""
    while len(body) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(body)
        yield kind & _NESTED, body[ATTRIBUTE.size : length]
        body = body[(max(length, ATTRIBUTE.size) + 3) & ~3 :]
