"""Free TCP ports on the loopback address.

In: how many. Out: ports that nobody listens on, and that no other call was given lately, in whatever process of this machine: a program listens on
its port some seconds after the port was chosen, an API server only once etcd answers.
"""

import os
import random
import socket
from collections import deque
from typing import Final

# Below the kernel's range for outgoing connections (32768 on): else a connection made between the choice and the
# server's start could take the port.
_RANGE = range(20000, 32000)
_MOST_RESERVED: Final = 128
"""Ports that one process reserves at a time: those that it chose before have been listened on by then, or nobody wants them any more."""
_reserved: deque[int] = deque()
"""File descriptors, the newest last; the kernel closes them with the process."""


def free_ports(count: int) -> list[int]:
    """Return that many different ports that nobody listens on now."""
    chosen: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if _reserve(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError(f"no {count} free ports between {_RANGE.start} and {_RANGE.stop}")


def _reserve(port: int) -> bool:
    """Say whether a port is free, and let no other call have it from now on."""
    with socket.socket() as probe, socket.socket(socket.AF_UNIX) as mark:
        try:
            # A name in the kernel's abstract namespace, which is as wide as that of ports: no file is left of it.
            mark.bind(f"\0apportion-testbed-port-{port}")
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        _reserved.append(mark.detach())
    while len(_reserved) > _MOST_RESERVED:
        os.close(_reserved.popleft())
    return True
