"""Messages about virtual functions, as this machine's kernel reads them, and the fake that stands for a kernel with SR-IOV."""

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from apportion.agent.network import rawnetlink, virtualfunctions
from apportion.agent.network.interface import VirtualFunction
from apportion.errors import NotReady
from testbed.fakes.virtualfunctions import UNTOUCHED, FakeFunctions
from testbed.hostnetwork import HostNetwork, host_network, ip

HOST = Path("/proc/self/ns/net")
PHYSICAL = "0000:9d:00.0"
UNSET = VirtualFunction(PHYSICAL, 0, "00:00:00:00:00:00", spoofchk=True, trust=False)
SETTINGS = [
    replace(UNSET, mac="02:11:22:33:44:55"),
    replace(UNSET, vlan=100, qos=3, protocol="802.1ad"),
    replace(UNSET, spoofchk=False),
    replace(UNSET, trust=True),
]


@pytest.fixture(scope="module")
def network(interfaces: None) -> Iterator[HostNetwork]:
    """Give a real interface, of a driver without virtual functions."""
    with host_network() as made:
        yield made


@pytest.fixture
def index(network: HostNetwork) -> int:
    """Return its index."""
    return socket.if_nametoindex(network.name)


@pytest.fixture
def functions(network: HostNetwork, tmp_path: Path) -> FakeFunctions:
    """Give it a virtual function in the fake, which is not installed."""
    made = FakeFunctions(tmp_path / "functions.json")
    made.make(network.name, dict(UNTOUCHED))
    return made


def refusal(link: Any, message: bytes) -> int:
    """Return the error that answers a message that sets something, 0 for none."""
    try:
        with link as opened:
            rawnetlink.send(opened, 19, rawnetlink.ACKNOWLEDGE, message)
            for _ in rawnetlink.answers(opened):
                pass
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.parametrize("wanted", SETTINGS)
def test_the_kernel_reads_each_setting_and_says_that_the_driver_has_none_such(
    index: int, wanted: VirtualFunction
) -> None:
    """EOPNOTSUPP comes after the message was read whole (net/core/rtnetlink.c, do_setvfinfo)."""
    with pytest.raises(NotReady, match=r"virtual function 0 of 0000:9d:00\.0: .*: Operation not supported"):
        virtualfunctions.change(HOST, index, UNSET, wanted)


@pytest.mark.parametrize("cut", [1, 2, 4, 8, 12])
@pytest.mark.parametrize("wanted", [SETTINGS[0], *SETTINGS[2:]])
def test_a_message_that_is_cut_is_refused_otherwise_by_kernel_and_fake(
    index: int, functions: FakeFunctions, wanted: VirtualFunction, cut: int
) -> None:
    """So that EOPNOTSUPP says that nothing of the message is wrong; the fake is no more patient than the kernel.

    Into a list of VLANs the kernel does not look where the driver has no function for it: the next test does.
    """
    message = shortened(sent(index, functions, wanted), cut)
    said = refusal(rawnetlink.opened(socket.NETLINK_ROUTE), message)
    with functions.installed():
        assert said == refusal(rawnetlink.opened(socket.NETLINK_ROUTE), message)
    assert said in {errno.EINVAL, errno.ERANGE}
    assert functions.now() == UNTOUCHED


def test_the_vlan_is_what_another_program_reads_in_the_message(index: int, functions: FakeFunctions) -> None:
    """pyroute2 has the structure anew; it is as long as the kernel's, with its padding (do_setvfinfo compares with its size)."""
    message = sent(index, functions, SETTINGS[1])
    head = rawnetlink.HEADER.pack(rawnetlink.HEADER.size + len(message), 19, 0, 1, 0)
    found = ifinfmsg(head + message)
    found.decode()
    assert found["index"] == index
    (function,) = found.get_attr("IFLA_VFINFO_LIST").get_attrs("IFLA_VF_INFO")
    (vlan,) = function.get_attr("IFLA_VF_VLAN_LIST").get_attrs("IFLA_VF_VLAN_INFO")
    assert dict(vlan) == {"vf": 0, "vlan": 100, "qos": 3, "proto": 0x88A8}
    with functions.installed():
        for cut in (1, 2, 4, 8):
            assert refusal(rawnetlink.opened(socket.NETLINK_ROUTE), shortened(message, cut)) == errno.EINVAL


def sent(index: int, functions: FakeFunctions, wanted: VirtualFunction) -> bytes:
    """Return the message by which a setting is made; what is set then is taken back."""
    before = functions.now()
    with functions.installed():
        virtualfunctions.change(HOST, index, UNSET, wanted)
    functions.set(**before)
    return functions.asked[-1]


def shortened(message: bytes, cut: int) -> bytes:
    """Return a message whose innermost attribute lacks its last bytes."""
    head, body = message[:16], message[16:]

    def inner(body: bytes) -> bytes:
        ((kind, inside),) = rawnetlink.attributes(body)
        nested = struct.unpack_from("=H", inside)[0] == len(inside)
        return rawnetlink.attribute(kind, inner(inside) if nested else inside[:-cut])

    return head + inner(body)


def test_an_interface_without_virtual_functions_says_so(index: int) -> None:
    """Here the kernel itself; so do the interfaces that stand for a NIC's functions."""
    assert virtualfunctions.read(HOST, index, PHYSICAL, 0) is None


@pytest.mark.parametrize("wanted", SETTINGS)
def test_what_is_set_is_read_as_it_was_set(
    network: HostNetwork, index: int, functions: FakeFunctions, wanted: VirtualFunction
) -> None:
    """And what a driver does not know is None."""
    with functions.installed():
        virtualfunctions.apply(HOST, index, wanted)
        assert virtualfunctions.read(HOST, index, PHYSICAL, 0) == wanted
        functions.refuse("spoofchk")
        found = virtualfunctions.read(HOST, index, PHYSICAL, 0)
        assert found is not None
        assert found.spoofchk is None
        with pytest.raises(NotReady, match=r"0000:9d:00\.0 has no virtual function 1"):
            virtualfunctions.apply(HOST, index, replace(wanted, number=1))


def test_iproute2_says_the_same(network: HostNetwork, index: int) -> None:
    """Its message about a VLAN is refused by this kernel for the same reason as ours."""
    with pytest.raises(Exception, match="returned non-zero") as refused:
        ip("link", "set", network.name, "vf", "0", "vlan", "100", "qos", "3", "proto", "802.1ad")
    assert "Operation not supported" in str(getattr(refused.value, "stderr", ""))
