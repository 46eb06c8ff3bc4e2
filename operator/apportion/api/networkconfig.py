"""Network configuration: the opaque parameters by which a claim asks for a NIC's network device, and says how it is set up.

In: `parameters` of kind NetworkConfig. Out: a typed value. The fields are named as in dranet's NetworkConfig, as far as both have
them (kubernetes-sigs/dranet, pkg/apis/types.go). A field that is left out keeps what the interface had on the host.
"""

import ipaddress
import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, StrictInt, StrictStr

from apportion.api.model import Model

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
"""The kernel takes more (linux net/core/dev.c, dev_valid_name); programs that write configuration files do not."""
_RESERVED: Final = frozenset({"lo", "all", "default"})
"""The loopback device, and what stands for every device in /proc/sys/net."""


def interface_name(text: str) -> str:
    """Return a name that an interface may have. Raises ValueError for any other."""
    if not _NAME.fullmatch(text) or text in _RESERVED:
        raise ValueError(f"{text!r} is no name for an interface: 1 to 15 letters, digits, and . _ - inside")
    return text


def _address(text: str) -> str:
    if "/" not in text:
        raise ValueError(f"{text!r} has no prefix length")
    found = ipaddress.ip_interface(text)
    if found.is_loopback or found.is_multicast or found.is_unspecified:
        raise ValueError(f"{text!r} is no address of an interface")
    return str(found)


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text))


def _gateway(text: str) -> str:
    return str(ipaddress.ip_address(text))


class _Part(Model):
    """A part of the parameters; a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class InterfaceConfig(_Part):
    """The interface, as the pod sees it."""

    name: Annotated[StrictStr, AfterValidator(interface_name)] | None = None
    """Its name in the pod."""
    mtu: Annotated[StrictInt, Field(ge=68, le=65535)] | None = None
    """Largest packet, in bytes (RFC 791: 68 at least)."""
    addresses: (
        Annotated[tuple[Annotated[StrictStr, AfterValidator(_address)], ...], Field(max_length=16)] | None
    ) = None
    """Its IP addresses with prefix lengths, instead of those that it had on the host."""


class RouteConfig(_Part):
    """A route through the interface."""

    destination: Annotated[StrictStr, AfterValidator(_network)]
    """A network with its prefix length."""
    gateway: Annotated[StrictStr, AfterValidator(_gateway)] | None = None
    """The next router; absent: the network is on the link."""


class NetworkConfig(_Part):
    """Asks for the network device of each NIC, beside its character devices."""

    api_version: Literal["config.apportion.dev/v1alpha1"]
    """Group and version of the kind."""
    kind: Literal["NetworkConfig"]
    """Name of the kind."""
    interface: InterfaceConfig = InterfaceConfig()
    """How the interface is set up in the pod."""
    routes: Annotated[tuple[RouteConfig, ...], Field(max_length=32)] | None = None
    """Instead of those that it had on the host."""
