"""A driver that comes after the agent, as the GPU operator installs it at every boot."""

import shutil
from collections.abc import Callable
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from testbed.eventually import eventually
from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from testbed.ports import free_ports
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.nvml.driverhost import UBUNTU, VERSION, host
from tests.agent.simulatednode import MakeNode, SimulatedNode

pytestmark = pytest.mark.skipif(
    find_library("nvidia-ml") is not None, reason="this machine has NVIDIA's library"
)


def install(fake: FakeNvml, root: Path) -> None:
    """Install the driver on the host, with the library that the agent loads from there."""
    host(root)
    shutil.copy(fake.library, root / UBUNTU / f"libnvidia-ml.so.{VERSION}")


def remove(root: Path) -> None:
    """Take the driver off the host, as a boot does with what the GPU operator installed."""
    shutil.rmtree(root / "usr")
    shutil.rmtree(root / "sys/module")


async def status(node: SimulatedNode) -> int:
    """Return what the agent's readiness probe answers, 0 when it does not."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{node.options.health_port}/readyz") as answer,
        ):
            return answer.status
    except aiohttp.ClientError:
        return 0


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Callable[[SimulatedNode], tuple[FakeNvml, Path]]:
    """Make a node's host, whose agents look for whatever hardware is there."""

    def make(node: SimulatedNode) -> tuple[FakeNvml, Path]:
        fake = FakeNvml.create(node.folder / "nvml", ["H100-80GB"])
        monkeypatch.setenv(FakeNvml.variable, str(fake.path))
        root = lay_out(fake, node.folder / "root")
        (port,) = free_ports(1)
        node.options = replace(
            node.options, backend="auto", simulation=None, host_root=root, health_port=port
        )
        return fake, root

    return make


async def test_devices_stay_published_until_the_driver_is_back_and_are_served_then(
    make_node: MakeNode, namespace: str, prepared: Callable[[SimulatedNode], tuple[FakeNvml, Path]]
) -> None:
    """Meanwhile the agent is not ready and says why; it starts anew by itself when the driver answers."""
    async with make_node() as node:
        fake, root = prepared(node)
        install(fake, root)
        async with killed_agent(node, "never"):
            before = await eventually(node.devices, bool)
        remove(root)
        async with killed_agent(node, "never") as agent:
            (event,) = await eventually(lambda: node.events("DriverMissing"), bool)
            assert "nvml: neither library nor device of a driver is on the node" in event["message"]
            assert await status(node) == 503
            assert await node.devices() == before
            install(fake, root)
            assert await agent.ended() == 1
            await agent.start()
            await eventually(lambda: status(node), lambda code: code == 200)
            claim = await node.claim(namespace, "one", "gpu-0")
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[claim["metadata"]["uid"]].error == ""


async def test_a_prepared_claim_outlives_a_lost_journal_while_the_driver_is_awaited(
    make_node: MakeNode, namespace: str, prepared: Callable[[SimulatedNode], tuple[FakeNvml, Path]]
) -> None:
    """Its files alone say that its container may run; whether its GPU is there is not known before the driver answers."""
    async with make_node() as node:
        fake, root = prepared(node)
        install(fake, root)
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "runs", "gpu-0")
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
        files = sorted(path.name for path in node.options.cdi_dir.iterdir())
        assert files
        for file in node.options.state_dir.glob("journal.db*"):
            file.unlink()
        remove(root)
        async with killed_agent(node, "never") as agent:
            await eventually(lambda: node.events("DriverMissing"), bool)
            # Files are looked at before the plugins serve.
            other = {"metadata": {"namespace": namespace, "name": "other", "uid": "no-such-claim"}}
            assert await agent.insist(lambda: eventually(lambda: node.unprepare(other), bool))
            assert sorted(path.name for path in node.options.cdi_dir.iterdir()) == files
            install(fake, root)
            assert await agent.ended() == 1
            await agent.start()
            await eventually(lambda: status(node), lambda code: code == 200)
            assert journal_steps(node)[1] == ["Prepared"]


async def test_devices_of_gpus_that_are_not_plugged_in_any_more_go(
    make_node: MakeNode, prepared: Callable[[SimulatedNode], tuple[FakeNvml, Path]]
) -> None:
    """That is known, not unknown: the node is ready without them."""
    async with make_node() as node:
        fake, root = prepared(node)
        install(fake, root)
        async with killed_agent(node, "never"):
            await eventually(node.devices, bool)
        remove(root)
        for link in (root / "sys/bus/pci/devices").iterdir():
            link.unlink()
        async with killed_agent(node, "never"):
            await eventually(node.devices, lambda devices: devices == {})
            await eventually(lambda: status(node), lambda code: code == 200)
