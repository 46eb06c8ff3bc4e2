"""A kill at any step of an interface's way: it is in the pod before a container starts, and on the host after it, as it was."""

import sqlite3

import pytest

from apportion.agent.slices.succession import PUBLISHERS
from testbed.eventually import eventually
from testbed.fakes.virtualfunctions import UNTOUCHED, FakeFunctions
from testbed.hostnetwork import seen
from tests.agent.killedagent import killed_agent
from tests.agent.places import RDMA
from tests.agent.rdma.networknode import NetworkNode, network_config

GOING = [
    "claim.preparing",
    "network.waiting",
    "cdi.written",
    "claim.prepared",
    "network.moving",
    "network.pinned",
    "network.marked",
    "network.function_set",
    "network.crossed",
    "network.set_up",
    "network.moved",
    "network.shown",
]
RETURNING = [
    "network.returning",
    "network.altnames_dropped",
    "network.brought",
    "network.function_restored",
    "network.restored",
    "network.unpinned",
    "network.gone",
    "claim.gone",
]
MAC = "02:11:22:33:44:55"
PASSED_ON = "network.passed_on"
HERE_ONLY = {PASSED_ON, "network.function_set", "network.function_restored"}
"""Steps that an agent takes for a claim of several pods, and for virtual functions: `testbed.chaos` has neither."""


@pytest.mark.parametrize(
    ("step", "heard"),
    [*((step, True) for step in (*GOING, *RETURNING)), *((step, False) for step in RETURNING)],
)
async def test_a_kill_at_any_step_is_made_good(
    function_rail: tuple[NetworkNode, FakeFunctions], step: str, *, heard: bool
) -> None:
    """Also where nobody hears of the sandbox's end: its namespace is gone before the next agent looks."""
    rail, functions = function_rail
    async with killed_agent(rail.node, step) as agent:
        claim = await rail.claim(
            interface={"name": "net1", "mtu": 1300, "hardwareAddr": MAC},
            virtualFunction={"vlan": 100, "trust": True},
        )

        async def error() -> str:
            return await rail.prepare(claim)

        await agent.insist(lambda: eventually(error, lambda text: text == "", within=50))
        await agent.insist(rail.heard)
        namespace = await rail.begun()
        shown = await agent.insist(lambda: rail.can_start(claim))
        assert (shown["interface"], shown["mtu"]) == ("net1", 1300)
        assert seen("net1", namespace)["addresses"] == rail.before["addresses"]
        assert rail.network.on_host() == {}
        assert functions.now() == UNTOUCHED | {"mac": MAC, "vlan": 100, "trust": True}
        await rail.runtime.end(rail.pod, heard=heard)
        rail.network.end(namespace)

        async def freed() -> str:
            return await rail.unprepare(claim)

        await agent.insist(lambda: eventually(freed, lambda text: text == "", within=50))
        assert rail.network.on_host() == rail.before
        assert functions.now() == UNTOUCHED
        assert agent.deaths == 1
    with sqlite3.connect(rail.node.options.state_dir / "journal.db") as db:
        assert db.execute("SELECT * FROM networks").fetchall() == []
    db.close()
    run = rail.node.options.run_dir
    # The agent that is left is killed, and the next one would remove its mark.
    assert [path for path in run.rglob("*") if path.is_file() and PUBLISHERS not in path.parts] == []


async def test_a_kill_while_the_claim_goes_to_the_next_pod_is_made_good(rail: NetworkNode) -> None:
    """The second pod's container starts with the interface, and without it never."""
    async with killed_agent(rail.node, PASSED_ON) as agent:
        claim = await rail.claim()
        await agent.insist(rail.heard)

        async def error() -> str:
            return await rail.prepare(claim)

        await agent.insist(lambda: eventually(error, lambda text: text == "", within=50))
        first = rail.pod
        second = await rail.joined(claim, first)
        assert await rail.runtime.begin(first, rail.network.pod()[1]) == ""
        namespace = await rail.begun(second)
        await rail.runtime.end(first)
        await rail.delete(first)

        async def starts() -> bool:
            return await rail.create(claim, second) == "" and rail.shown(claim) is not None

        await agent.insist(lambda: eventually(starts, within=50))
        assert agent.deaths == 1
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]
        assert await agent.insist(lambda: rail.unprepare(claim)) == ""
        assert rail.network.on_host() == rail.before


async def test_a_claim_that_is_allocated_anew_gets_interfaces_as_its_requests_say_now(
    rail: NetworkNode,
) -> None:
    """The agent was killed before the claim was prepared: what was noted for the requests of before holds no more."""
    nics = (rail.nic, rail.beside().nic)
    async with killed_agent(rail.node, "cdi.written") as agent:
        claim = await rail.claim(devices=nics, interface={"mtu": 1300})

        async def killed() -> str:
            return "" if agent.deaths else await rail.prepare(claim)

        await agent.insist(rail.heard)
        await agent.insist(lambda: eventually(killed, lambda text: text == "", within=50))
        assert agent.deaths == 1
        await rail.node.deallocate(claim)
        config = [network_config(f"r{n}", interface={"mtu": mtu}) for n, mtu in enumerate((1280, 1290))]
        await rail.node.allocate(claim, *reversed(nics), driver=RDMA, config=config)
        await rail.reserve(claim, rail.pod)
        await rail.reconnected()
        assert await rail.prepare(claim) == ""
        await rail.begun()
        assert (await agent.insist(lambda: rail.can_start(claim)))["mtu"] == 1290
