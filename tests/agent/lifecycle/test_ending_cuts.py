"""An agent that is told to end in the middle of a cut: the pod gets its device, and nothing is cut twice.

The agent is a process, the kubelet one that drops the connection to a plugin whose registration socket has gone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.api import Json
from testbed.beside import beside
from testbed.eventually import eventually
from testbed.kubelet.plugin import ClaimKey, Plugin, PluginError, PreparedDevice
from testbed.kubelet.plugins import Plugins
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.places import GPU, H100
from tests.agent.simulatednode import MakeNode, SimulatedNode, holder

DEVICE = "gpu-0-mig-1g10gb-19-3"
SLOW = {"createDelay": 3}
Answers = dict[str, tuple[PreparedDevice, ...] | PluginError]


@asynccontextmanager
async def kubelet_beside(folder: Path) -> AsyncIterator[Plugins]:
    """Run the plugin manager of a kubelet that wipes no slices."""

    async def wipe(_driver: str) -> bool:
        return True

    plugins = Plugins(folder, wipe=wipe, wiping_delay=30, changed=lambda: None)
    async with beside(plugins.run()):
        yield plugins


async def being_prepared(node: SimulatedNode, plugin: Plugin, key: ClaimKey) -> asyncio.Task[Answers]:
    """Have a plugin prepare the claim, and return once the agent has begun to: a call that is still on its way is dropped with the connection."""
    asked = asyncio.create_task(plugin.prepare([key]))

    async def steps() -> list[str]:
        return journal_steps(node)[1]

    await eventually(steps, lambda found: found == ["Preparing"])
    return asked


async def _being_cut(node: SimulatedNode) -> None:
    async def hardware() -> list[Json]:
        return node.hardware()

    await eventually(hardware, lambda rows: [row["complete"] for row in rows] == [False])


@pytest.mark.parametrize("waiting", [True, False], ids=["with a pod", "before the pod"])
async def test_a_cut_is_finished_by_the_agent_that_began_it(
    make_node: MakeNode, namespace: str, *, waiting: bool
) -> None:
    """Kubelet tries a pod whose prepare broke off again after a minute; the next agent would take half a partition away, and make it anew."""
    async with make_node(cards=[H100], faults=SLOW) as node, killed_agent(node, "never") as agent:
        await eventually(node.is_served)
        async with kubelet_beside(node.folder / "r") as kubelet:
            await eventually(lambda: _drivers(kubelet))
            claim = await node.claim(namespace, "waits", DEVICE)
            meta = claim["metadata"]
            key = ClaimKey(meta["namespace"], meta["name"], meta["uid"])
            asked = await being_prepared(node, kubelet.of(GPU), key) if waiting else None
            await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
            await _being_cut(node)
            agent.tell_to_end()
            if asked is not None:
                (answer,) = (await asked).values()
                assert not isinstance(answer, PluginError)
            assert await agent.ended() == 0
        (made,) = node.hardware()
        assert made["complete"]
        assert journal_steps(node)[1] == (["Prepared"] if waiting else [])
        async with node.agent():
            await node.phase(DEVICE, "Ready")
            assert await node.prepared(claim) == ""
            assert node.hardware() == [made]


async def test_an_agent_that_starts_anew_by_itself_finishes_what_it_began(
    make_node: MakeNode, namespace: str
) -> None:
    """One edit of the configuration of generic devices has the agents of all nodes do so, at any moment."""
    async with make_node(cards=[H100], faults=SLOW) as node:
        file = node.folder / "devices.yaml"
        file.write_text("devices: []\n")
        node.options = replace(node.options, generic_devices=file)
        (node.folder / "r").mkdir()
        async with killed_agent(node, "never") as agent, kubelet_beside(node.folder / "r") as kubelet:
            await eventually(lambda: _drivers(kubelet))
            claim = await node.claim(namespace, "waits", DEVICE)
            meta = claim["metadata"]
            key = ClaimKey(meta["namespace"], meta["name"], meta["uid"])
            asked = await being_prepared(node, kubelet.of(GPU), key)
            await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
            await _being_cut(node)
            file.write_text("devices: []  # another one\n")
            (answer,) = (await asked).values()
            assert not isinstance(answer, PluginError)
            assert await agent.ended() == 1
        assert "says something else now" in (node.folder / "agent.log").read_text()
        assert journal_steps(node) == (["Ready"], ["Prepared"])


async def test_the_next_agent_leaves_a_cut_to_the_one_that_began_it(
    make_node: MakeNode, namespace: str
) -> None:
    """Both see the Partition, and either may be asked; what one makes is neither removed nor made once more by the other."""
    async with make_node(cards=[H100], faults=SLOW) as node, killed_agent(node, "never") as agent:
        await eventually(node.is_served)
        claim = await node.claim(namespace, "waits", DEVICE)
        async with kubelet_beside(node.folder / "r") as kubelet:
            await eventually(lambda: _drivers(kubelet))
            meta = claim["metadata"]
            key = ClaimKey(meta["namespace"], meta["name"], meta["uid"])
            first = kubelet.of(GPU)
            async with node.agent(instance="next"):
                await eventually(lambda: _another(kubelet, first))
                asked = [
                    await being_prepared(node, first, key),
                    asyncio.create_task(kubelet.of(GPU).prepare([key])),
                ]
                await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
                await _being_cut(node)
                agent.tell_to_end()
                for each in asked:
                    (answer,) = (await each).values()
                    assert not isinstance(answer, PluginError)
                assert await agent.ended() == 0
                (made,) = node.hardware()
                assert (made["complete"], made["instance"]["gpuInstance"]) == (True, "1")
                assert journal_steps(node) == (["Ready"], ["Prepared"])
                (cdi,) = node.cdi().values()
                assert f"APPORTION_PARTITION_UUID={made['uuid']}" in cdi["containerEdits"]["env"]
                await kubelet.of(GPU).unprepare([key])
                await node.remove(DEVICE)
                await eventually(lambda: node.see(DEVICE), lambda item: item == {})
        assert (node.hardware(), node.cdi(), journal_steps(node)) == ([], {}, ([], []))


async def _another(kubelet: Plugins, first: Plugin) -> bool:
    return kubelet.of(GPU) is not first


async def _drivers(kubelet: Plugins) -> frozenset[str]:
    return kubelet.drivers
