"""Network configuration: the opaque parameters by which a claim asks for a NIC's network device, and says how it is set up.

In: `parameters` of kind NetworkConfig. Out: a typed value. The fields are named as in dranet's NetworkConfig, as far as both have
them (kubernetes-sigs/dranet, pkg/apis/types.go). A field that is left out keeps what the interface had on the host.
"""

import ipaddress
import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from apportion.api.model import Model

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
"""The kernel takes more (linux net/core/dev.c, dev_valid_name); programs that write configuration files do not."""
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
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


def _mac(text: str) -> str:
    octets = bytes.fromhex(text.replace(":", "")) if _MAC.fullmatch(text) else b""
    if not any(octets) or octets[0] & 1:
        raise ValueError(
            f"{text!r} is no MAC address of an interface: six octets, not all zero, no group of stations"
        )
    return text.lower()


class _Part(Model):
    """A part of the parameters; a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class InterfaceConfig(_Part):
    """The interface, as the pod sees it."""

    name: Annotated[StrictStr, AfterValidator(interface_name)] | None = None
    """Its name in the pod."""
    hardware_addr: Annotated[StrictStr, AfterValidator(_mac)] | None = None
    """Its MAC address; for a virtual function it is set at the physical function, too."""
    mtu: Annotated[StrictInt, Field(ge=68, le=65535)] | None = None
    """Largest packet, in bytes (RFC 791: 68 at least)."""
    addresses: (
        Annotated[tuple[Annotated[StrictStr, AfterValidator(_address)], ...], Field(max_length=16)] | None
    ) = None
    """Its IP addresses with prefix lengths, instead of those that it had on the host."""


class VirtualFunctionConfig(_Part):
    """What the physical function's driver enforces for a virtual function (SR-IOV). Fields are named as in sriov-cni's NetConf."""

    vlan: Annotated[StrictInt, Field(ge=0, le=4094)] | None = None
    """The VLAN that its packets are put in and taken from; the pod does not see the tag. 0: none."""
    vlan_qos: Annotated[Annotated[StrictInt, Field(ge=0, le=7)] | None, Field(alias="vlanQoS")] = None
    """Priority in that VLAN; absent: 0."""
    vlan_proto: Literal["802.1q", "802.1ad"] | None = None
    """How it is tagged; absent: 802.1q."""
    spoofchk: StrictBool | None = None
    """Whether packets from other MAC addresses than its own are dropped."""
    trust: StrictBool | None = None
    """Whether it may change its MAC address, and listen to packets for others."""

    @model_validator(mode="after")
    def _of_a_vlan(self) -> Self:
        if not self.vlan and (self.vlan_qos is not None or self.vlan_proto is not None):
            raise ValueError("vlanQoS and vlanProto have no meaning without a VLAN")
        return self


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
    virtual_function: VirtualFunctionConfig | None = None
    """How its NIC treats it; only for virtual functions."""
    routes: Annotated[tuple[RouteConfig, ...], Field(max_length=32)] | None = None
    """Instead of those that it had on the host."""
