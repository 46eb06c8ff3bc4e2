"""NetworkConfig: what a claim may say about a NIC's network device, and what is refused with its field."""

import pytest

from apportion.api.deviceconfig import read
from apportion.api.networkconfig import InterfaceConfig, NetworkConfig, RouteConfig
from apportion.errors import BrokenInput


def parameters(**fields: object) -> dict[str, object]:
    return {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig", **fields}


def test_what_is_left_out_is_as_it_was_on_the_host() -> None:
    """None says so; an empty list would mean that there is nothing."""
    config = read(parameters(), field="p")
    assert isinstance(config, NetworkConfig)
    assert (config.interface, config.routes) == (InterfaceConfig(), None)
    assert config.interface.addresses is None


def test_all_that_it_says_is_read() -> None:
    """Addresses and networks in the kernel's notation, IPv6 shortened."""
    config = read(
        parameters(
            interface={"name": "net1", "mtu": 9000, "addresses": ["10.0.3.7/24", "2001:DB8:0::7/64"]},
            routes=[{"destination": "10.0.0.0/16", "gateway": "10.0.3.1"}, {"destination": "::/0"}],
        ),
        field="p",
    )
    assert isinstance(config, NetworkConfig)
    assert config.interface == InterfaceConfig.from_json(
        {"name": "net1", "mtu": 9000, "addresses": ["10.0.3.7/24", "2001:db8::7/64"]}
    )
    assert config.routes == (
        RouteConfig.from_json({"destination": "10.0.0.0/16", "gateway": "10.0.3.1"}),
        RouteConfig.from_json({"destination": "::/0"}),
    )


@pytest.mark.parametrize(
    ("fields", "field", "why"),
    [
        ({"interface": {"name": "../eth0"}}, "interface.name", "no name for an interface"),
        ({"interface": {"name": "a23456789012345b"}}, "interface.name", "1 to 15"),
        ({"interface": {"name": "lo"}}, "interface.name", "'lo'"),
        ({"interface": {"name": "net%d"}}, "interface.name", "net%d"),
        ({"interface": {"name": "net1\n"}}, "interface.name", "no name"),
        ({"interface": {"hardwareAddr": "02:11:22:33:44"}}, "interface.hardwareAddr", "no MAC address"),
        ({"interface": {"hardwareAddr": "01:11:22:33:44:55"}}, "interface.hardwareAddr", "group"),
        ({"interface": {"hardwareAddr": "00:00:00:00:00:00"}}, "interface.hardwareAddr", "zero"),
        ({"virtualFunction": {"vlan": 4095}}, "virtualFunction.vlan", "4094"),
        ({"virtualFunction": {"vlan": 5, "vlanQoS": 8}}, "virtualFunction.vlanQoS", "7"),
        ({"virtualFunction": {"vlan": 5, "vlanProto": "802.3"}}, "virtualFunction.vlanProto", "802.1ad"),
        ({"virtualFunction": {"vlanQoS": 3}}, "virtualFunction", "without a VLAN"),
        ({"virtualFunction": {"vlan": 0, "vlanProto": "802.1q"}}, "virtualFunction", "without a VLAN"),
        ({"virtualFunction": {"spoofchk": "on"}}, "virtualFunction.spoofchk", "boolean"),
        ({"virtualFunction": {"vlanQos": 3}}, "virtualFunction.vlanQos", "is not known"),
        ({"interface": {"mtu": 67}}, "interface.mtu", "68"),
        ({"interface": {"mtu": "9000"}}, "interface.mtu", "integer"),
        ({"interface": {"addresses": ["10.0.3.7"]}}, "interface.addresses[0]", "no prefix length"),
        (
            {"interface": {"addresses": ["127.0.0.1/8"]}},
            "interface.addresses[0]",
            "no address of an interface",
        ),
        ({"interface": {"addresses": ["10.0.3.700/24"]}}, "interface.addresses[0]", "10.0.3.700/24"),
        ({"interface": {"dhcp": True}}, "interface.dhcp", "is not known"),
        ({"routes": [{"destination": "10.0.0.1/16"}]}, "routes[0].destination", "host bits"),
        ({"routes": [{"gateway": "10.0.0.1"}]}, "routes[0].destination", "required"),
        ({"rules": []}, "rules", "is not known"),
        ({"apiVersion": "resource.nvidia.com/v1beta1"}, "apiVersion", "config.apportion.dev/v1alpha1"),
    ],
)
def test_what_would_not_be_honoured_is_refused(fields: dict[str, object], field: str, why: str) -> None:
    """With the field below the place where the parameters stand."""
    with pytest.raises(BrokenInput, match=why) as refused:
        read(parameters(**fields), field="spec.devices.config[0].opaque.parameters")
    assert refused.value.field == f"spec.devices.config[0].opaque.parameters.{field}"
