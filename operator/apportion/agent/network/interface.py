"""A network interface and how it is set up, as values that a journal can keep.

In: nothing. Out: frozen values, and their JSON.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from apportion.agent.laterfields import without_later


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of an interface."""

    address: str
    prefix: int
    label: str = ""
    """Name under which older tools show it (IPv4)."""
    peer: str = ""
    """The address of the other end, which the prefix is of then; "" where there is none."""
    broadcast: str | None = None
    """IPv4; "" for none, None for that of its network."""
    scope: int = 0
    """Where it is valid (IPv4): 0 everywhere, 253 on the link (include/uapi/linux/rtnetlink.h)."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route through an interface."""

    destination: str
    """A network with its prefix length."""
    gateway: str = ""
    """For a network of IPv4 it may be of IPv6 (RFC 5549)."""
    source: str = ""
    table: int = 254
    """254: main (include/uapi/linux/rtnetlink.h)."""
    metric: int = 0
    """Priority; 0 where the kernel has none."""
    on_link: bool = False
    """Whether the gateway counts as reachable whatever the addresses say."""


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """What the physical function's driver enforces for a virtual function (SR-IOV)."""

    physical: str
    """Bus id of the physical function."""
    number: int
    mac: str
    """The address that it may send from, if somebody has set one; zero: none."""
    vlan: int = 0
    """The VLAN that its packets are in, without knowing it; 0: none."""
    qos: int = 0
    protocol: str = "802.1q"
    """802.1q, or 802.1ad."""
    spoofchk: bool | None = None
    """Whether packets from other addresses are dropped; None: the driver does not know that."""
    trust: bool | None = None
    """Whether it may change its address and listen to all packets; None: the driver does not know that."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface."""

    index: int
    name: str
    mac: str
    mtu: int
    up: bool
    parent: str = ""
    """Bus id of the PCI device that it belongs to; "" for a virtual one."""
    permanent: str = ""
    """The MAC address that it was made with; "" where the driver does not tell."""
    alias: str = ""
    """The text that people give an interface; it stays with it through all namespaces."""
    master: int = 0
    """Index of the bond or bridge that it is a port of."""
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    altnames: tuple[str, ...] | None = None
    """Its further names (ip-link(8), `altname`); None: a former release has not written them down."""
    flags: int | None = None
    """Those that people set (`netlink.SETTABLE`); None: a former release has not written them down."""
    queue: int | None = None
    """Packets that wait to be sent (ip-link(8), `txqueuelen`); None: as `flags`."""
    function: VirtualFunction | None = None
    """What is set for it at its physical function, where a claim changes that."""

    @property
    def virtual(self) -> bool:
        """Whether the kernel ends it with its namespace, instead of giving it back to the host."""
        return not self.parent

    def to_json(self) -> str:
        """Write it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Interface":
        """Read what `to_json` wrote, here or in another release. Raises ValueError, TypeError or KeyError for any other text."""
        raw: dict[str, Any] = json.loads(text)
        # Journals of former releases have neither.
        altnames, function = raw.get("altnames"), raw.get("function")
        read = {
            "addresses": tuple(Address(**without_later(Address, row)) for row in raw["addresses"]),
            "routes": tuple(Route(**without_later(Route, row)) for row in raw["routes"]),
            "altnames": tuple(altnames) if altnames is not None else None,
            "function": VirtualFunction(**without_later(VirtualFunction, function)) if function else None,
        }
        return cls(**{**without_later(cls, raw), **read})
