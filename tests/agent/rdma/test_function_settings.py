"""Virtual functions (SR-IOV): VLAN, MAC address and guards that a claim asks for, set at the physical function and taken back."""

import shutil
from typing import Any

import pytest

from testbed.fakes.virtualfunctions import UNTOUCHED, FakeFunctions
from testbed.hostnetwork import seen
from tests.agent.rdma.networknode import NetworkNode

Rail = tuple[NetworkNode, FakeFunctions]
MAC = "02:11:22:33:44:55"
ASKED: dict[str, Any] = {
    "interface": {"name": "net1", "hardwareAddr": MAC},
    "virtualFunction": {
        "vlan": 100, "vlanQoS": 3, "vlanProto": "802.1ad", "spoofchk": False, "trust": True,
    },
}  # fmt: skip
SET = {"mac": MAC, "vlan": 100, "qos": 3, "protocol": "802.1ad", "spoofchk": False, "trust": True}


async def test_what_a_claim_asks_of_a_virtual_function_holds_in_the_pod_and_no_longer(
    function_rail: Rail,
) -> None:
    """The pod cannot undo it: the physical function's driver enforces it. Afterwards all is as somebody had it before."""
    rail, functions = function_rail
    functions.set(vlan=7, qos=1)
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.prepared(**ASKED)
        assert functions.now() == UNTOUCHED | {"vlan": 7, "qos": 1}
        namespace = await rail.begun()
        assert functions.now() == SET
        assert seen("net1", namespace)["mac"] == MAC
        shown = rail.shown(claim)
        assert shown is not None
        assert shown["hardwareAddress"] == MAC
        assert await rail.unprepare(claim) == ""
        assert functions.now() == UNTOUCHED | {"vlan": 7, "qos": 1}
        assert rail.network.on_host() == rail.before


async def test_what_a_claim_does_not_ask_for_is_left_alone(function_rail: Rail) -> None:
    """An administrator may change it meanwhile, and finds it so afterwards."""
    rail, functions = function_rail
    functions.set(vlan=7, qos=1, trust=True)
    async with rail.node.agent():
        claim, _ = await rail.started()
        functions.set(vlan=8)
        assert await rail.unprepare(claim) == ""
        assert functions.now() == UNTOUCHED | {"vlan": 8, "qos": 1, "trust": True}


async def test_a_vlan_alone_leaves_mac_address_and_guards(function_rail: Rail) -> None:
    """Each field that is left out stays as it was."""
    rail, functions = function_rail
    async with rail.node.agent():
        await rail.started(virtualFunction={"vlan": 4094})
        assert functions.now() == UNTOUCHED | {"vlan": 4094}


async def test_a_driver_that_refuses_keeps_the_sandbox_from_starting_and_all_is_put_back(
    function_rail: Rail,
) -> None:
    """The reason names function and setting; a pod outside of its VLAN is worse than none."""
    rail, functions = function_rail
    functions.refuse("trust")
    async with rail.node.agent():
        await rail.heard()
        await rail.prepared(**ASKED)
        _, path = rail.network.pod()
        why = await rail.runtime.begin(rail.pod, path)
        assert "virtual function 0 of 0000:9d:00.0: trust: Operation not supported" in why
        assert functions.now() == UNTOUCHED
        assert rail.network.on_host() == rail.before
        functions.refuse()
        assert await rail.runtime.begin(rail.pod, path) == ""
        assert functions.now() == SET


async def test_a_driver_that_takes_no_zero_back_gets_the_functions_own_mac_address(
    function_rail: Rail,
) -> None:
    """Else the interface would never come back to the host: nobody had set an address before."""
    rail, functions = function_rail
    functions.refuse("zero")
    async with rail.node.agent():
        claim, _ = await rail.started(interface={"hardwareAddr": MAC})
        assert functions.now()["mac"] == MAC
        assert await rail.unprepare(claim) == ""
        assert functions.now() == UNTOUCHED | {"mac": rail.before["mac"]}
        assert rail.network.on_host() == rail.before


async def test_a_lost_journal_loses_no_setting(function_rail: Rail) -> None:
    """What was set before the claim is written down beside it."""
    rail, functions = function_rail
    async with rail.node.agent():
        claim, _ = await rail.started(**ASKED)
    shutil.rmtree(rail.node.options.state_dir)
    async with rail.node.agent():
        await rail.heard()
        assert functions.now() == SET
        assert await rail.unprepare(claim) == ""
        assert functions.now() == UNTOUCHED


async def test_a_nic_that_is_no_virtual_function_has_no_vlan(rail: NetworkNode) -> None:
    """The claim is not prepared, and says which device and field; a MAC address of its own any interface can have."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.claim(virtualFunction={"vlan": 100})
        why = await rail.prepare(claim)
        assert "opaque.parameters.virtualFunction: nic-mlx5-0 is no virtual function" in why
        assert await rail.unprepare(claim) == ""
        claim = await rail.prepared(name="mac", interface={"hardwareAddr": MAC})
        namespace = await rail.begun()
        assert seen(rail.network.name, namespace)["mac"] == MAC
        assert await rail.unprepare(claim) == ""
        assert rail.network.on_host() == rail.before


@pytest.mark.parametrize("refused", ["mac", "vlan", "spoofchk", "trust"])
async def test_what_is_refused_when_it_is_put_back_is_tried_until_it_is_back(
    function_rail: Rail, refused: str
) -> None:
    """The claim stays prepared: a function in somebody's VLAN is not given to the next one."""
    rail, functions = function_rail
    async with rail.node.agent():
        claim, _ = await rail.started(**ASKED)
        functions.refuse(refused)
        why = await rail.unprepare(claim)
        assert "virtual function 0 of 0000:9d:00.0" in why
        functions.refuse()
        assert await rail.unprepare(claim) == ""
