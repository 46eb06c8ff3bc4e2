"""Free TCP ports on the loopback address."""

import random
import socket

# Below the kernel's range for outgoing connections (32768 on): else a connection made between the choice and the
# server's start could take the port.
_RANGE = range(20000, 32000)


def free_ports(count: int) -> list[int]:
    """Return that many different ports that nobody listens on now."""
    chosen: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError(f"no {count} free ports between {_RANGE.start} and {_RANGE.stop}")
