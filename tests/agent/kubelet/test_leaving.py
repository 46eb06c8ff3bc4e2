"""An agent that ends answers the prepare calls that are under way: kubelet tries a pod whose call broke off again after a minute or more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apportion.agent.kubelet.health import HealthFeed
from apportion.agent.kubelet.plugin import Plugin
from apportion.agent.rows import ClaimStep
from apportion.agent.wakeup import Wakeup
from apportion.cluster.kinds import CLAIMS
from testbed.beside import beside
from testbed.eventually import eventually
from testbed.kubelet.plugin import ClaimKey, PluginError
from testbed.kubelet.plugins import Plugins
from tests.agent.kubelet.filesbelow import REF, preparer, written
from tests.agent.lifecycle.onecard import DEVICE, OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend

KEY = ClaimKey(REF.namespace, REF.name, REF.uid)
OTHER = "00000000-0000-4000-8000-00000000000d"
HOLDER = {"kind": "ResourceClaim", "namespace": REF.namespace, "name": REF.name, "uid": REF.uid}


@pytest.fixture
async def node(tmp_path: Path, make_backend: MakeBackend) -> AsyncIterator[OneCard]:
    """Make a node with a GPU and a claim of a part of it that is not cut yet."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as made:
        made.partition("p1", holder=HOLDER, origin="Claim")
        yield made


async def _never(_driver: str) -> bool:
    return True


@asynccontextmanager
async def registered(folder: Path, node: OneCard) -> AsyncIterator[tuple[Plugin, Plugins]]:
    """Serve the node's claims to a kubelet that has registered the plugin."""
    health = HealthFeed("n", lambda: (), last_read=lambda: 0.0, changed=Wakeup())
    served = Plugin(
        preparer(folder, node, DEVICE), health, plugins=folder / "plugins", registry=folder / "registry"
    )
    await served.start()
    kubelet = Plugins(folder / "registry", wipe=_never, wiping_delay=30, changed=lambda: None)

    async def drivers() -> frozenset[str]:
        return kubelet.drivers

    try:
        async with beside(kubelet.run()):
            await eventually(drivers)
            yield served, kubelet
    finally:
        await served.stop(0)


async def _steps(node: OneCard) -> list[ClaimStep]:
    return [row.step for row in node.context.journal.claims()]


async def test_a_prepare_that_was_begun_is_answered_before_the_agent_leaves_kubelet(
    tmp_path: Path, node: OneCard
) -> None:
    """Kubelet drops the connection of a plugin whose registration socket has gone, with the calls on it."""
    async with registered(tmp_path, node) as (served, kubelet):
        asked = asyncio.create_task(kubelet.of(GPU).prepare([KEY]))
        await eventually(lambda: _steps(node), lambda steps: steps == [ClaimStep.PREPARING])
        leaving = asyncio.create_task(served.stop(60))
        await asyncio.sleep(0.5)
        assert not asked.done()
        # A claim that comes now is refused at once, and one whose pod ends is unprepared.
        node.server.put(CLAIMS, written(DEVICE, uid=OTHER))
        other = ClaimKey(REF.namespace, REF.name, OTHER)
        refusal = (await kubelet.of(GPU).prepare([other]))[OTHER]
        assert isinstance(refusal, PluginError)
        assert "the agent of this node ends" in str(refusal)
        assert await kubelet.of(GPU).unprepare([other]) == {OTHER: None}
        assert await _steps(node) == [ClaimStep.PREPARING]
        node.server.put(CLAIMS, written(DEVICE))
        await node.work()
        (answer,) = (await asked).values()
        assert not isinstance(answer, PluginError)
        assert [device.device for device in answer] == [DEVICE]
        await leaving
        assert await _steps(node) == [ClaimStep.PREPARED]
        assert not list((tmp_path / "registry").iterdir())


async def test_a_prepare_that_takes_too_long_is_left_to_the_next_agent(tmp_path: Path, node: OneCard) -> None:
    """The pod's grace ends some time; the journal says what was begun."""
    async with registered(tmp_path, node) as (served, kubelet):
        asked = asyncio.create_task(kubelet.of(GPU).prepare([KEY]))
        await eventually(lambda: _steps(node), lambda steps: steps == [ClaimStep.PREPARING])
        await served.stop(0.1)
        with pytest.raises(PluginError):
            await asked
        assert await _steps(node) == [ClaimStep.PREPARING]
    async with registered(tmp_path, node) as (served, kubelet):
        asked = asyncio.create_task(kubelet.of(GPU).prepare([KEY]))
        await node.work()
        (answer,) = (await asked).values()
        assert not isinstance(answer, PluginError)
        await served.stop(60)
    assert len(await node.live()) == 1
