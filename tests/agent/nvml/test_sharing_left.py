"""What is set up when the agent comes back: what a claim uses stays, what nobody uses goes, and after a reboot nothing is believed."""

from pathlib import Path

from testbed.eventually import eventually
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.nvml.sharinghost import SharingHost, mps, sharing_host, sliced
from tests.agent.nvml.test_control_daemons import DEFAULT, EXCLUSIVE_PROCESS, prepared


def lose_journal(host: SharingHost) -> None:
    """Remove the journal, as a person or a new disk does."""
    for path in host.node.options.state_dir.glob("journal.db*"):
        path.unlink()


def restart_host(boot: Path) -> None:
    """Let the host have another boot id."""
    boot.write_text("second boot", encoding="utf-8")


async def settles(host: SharingHost, expected: list[str]) -> None:
    """Wait until just this is set up."""

    async def left() -> list[str]:
        return host.left()

    await eventually(left, lambda found: found == expected)


async def test_a_lost_journal_costs_running_programs_no_daemon_and_their_end_leaves_nothing(
    faked: MakeFake, namespace: str
) -> None:
    """The claim's file says that its containers use the daemon; when the claim is unprepared, it is nobody's."""
    async with faked() as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "lives", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
            before = host.daemons()
        lose_journal(host)
        async with killed_agent(node, "never") as agent:
            assert await prepared(agent, host, claim) == ""
            assert host.daemons() == before
            assert fake.shared(0) == (EXCLUSIVE_PROCESS, 0)
            await agent.insist(lambda: node.unprepare(claim))
            await host.becomes_idle()


async def test_a_lost_journal_leaves_no_time_slice_after_its_claim(faked: MakeFake, namespace: str) -> None:
    """No driver says who set one: the claim that runs keeps it, and the GPU has the driver's when the claim is unprepared."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "lives", "gpu-0", config=[sliced("Long")])
            assert await prepared(agent, host, claim) == ""
        fake.slice(1, 2)  # a person's
        lose_journal(host)
        async with killed_agent(node, "never") as agent:
            await eventually(node.devices, bool)
            assert [fake.shared(gpu) for gpu in (0, 1)] == [(DEFAULT, 3), (DEFAULT, 2)]
            await agent.insist(lambda: node.unprepare(claim))
            await settles(host, ["gpu 1 has slice 2"])


async def test_a_time_slice_of_a_claim_that_ended_with_the_journal_is_taken_back(
    faked: MakeFake, namespace: str
) -> None:
    """Nobody unprepares it any more; a slice that a person set on a GPU that no claim has had stays."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "gone", "gpu-0", config=[sliced("Long")])
            assert await prepared(agent, host, claim) == ""
        fake.slice(1, 2)
        lose_journal(host)
        for path in node.options.cdi_dir.iterdir():
            path.unlink()
        async with killed_agent(node, "never"):
            await settles(host, ["gpu 1 has slice 2"])


async def test_a_daemon_that_no_claim_uses_is_ended_when_the_agent_starts(
    faked: MakeFake, namespace: str
) -> None:
    """Journal and files are gone: nobody can use it, and its GPU is for all."""
    async with faked() as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "gone", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
        lose_journal(host)
        for path in node.options.cdi_dir.iterdir():
            path.unlink()
        async with killed_agent(node, "never"):
            await host.becomes_idle()


async def test_after_a_reboot_a_claim_gets_a_daemon_anew(faked: MakeFake, namespace: str) -> None:
    """Daemon, compute mode and containers are gone with the boot, whatever the journal had noted."""
    async with faked() as (node, fake):
        async with sharing_host(node, fake) as host, killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "rebooted", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
        assert host.daemons() == []
        fake.reboot()
        restart_host(node.options.boot_id)
        for path in node.options.cdi_dir.iterdir():
            path.unlink()
        async with sharing_host(node, fake) as host, killed_agent(node, "never") as agent:

            async def left() -> list[str]:
                return host.left()

            await eventually(left, lambda found: found == [])
            assert fake.shared(0) == (DEFAULT, 0)
            assert await prepared(agent, host, claim) == ""
            assert host.ask(claim, "get_default_active_thread_percentage") == "100.0"
            await agent.insist(lambda: node.unprepare(claim))
            assert host.left() == []
