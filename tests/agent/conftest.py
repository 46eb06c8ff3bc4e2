import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml

from apportion.agent.devices.simulated.backend import SimulatedBackend
from testbed.chaos.agentpool import AgentPool
from testbed.chaos.nodesetup import chaos_node
from testbed.chaos.nvmlhardware import NvmlHardware
from testbed.controlplane import ControlPlane
from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.forkservers import ForkServers
from tests.agent.killablenode import KillableNode
from tests.agent.nvml.nodes import Node, Nodes
from tests.agent.places import MakeBackend
from tests.agent.simulatednode import MakeNode, install, simulated_node


@pytest.fixture
def make_backend(tmp_path: Path) -> MakeBackend:
    """Make simulated backends; keyword arguments are the fields of the simulation file."""
    made = iter(range(1000))

    def make(node: str = "node-a", **fields: Any) -> SimulatedBackend:
        file = tmp_path / f"simulation-{next(made)}.yaml"
        file.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return SimulatedBackend(file, node)

    return make


@pytest.fixture
def make_gpus(tmp_path: Path) -> Iterator[Nodes]:
    """Make a node with GPUs of these models behind the fake driver; one at a time."""
    made: list[Node] = []

    def make(models: Sequence[str] = ("H100-80GB",), *, mig: bool = False) -> Node:
        for old in made:
            old.backend.close()
        folder = tmp_path / f"gpus-{len(made)}"
        folder.mkdir()
        fake = FakeNvml.create(folder / "nvml", models, mig=mig)
        fake.preload()
        made.append(Node(fake, lay_out(fake, folder / "root")))
        return made[-1]

    yield make
    for node in made:
        node.fake.drop_rules()
        node.backend.close()
    # A session that a test left open would show its fake to the next test.
    with suppress(pynvml.NVMLError):
        while True:
            pynvml.nvmlShutdown()


@pytest.fixture(scope="session")
async def installed(control_plane: ControlPlane) -> ControlPlane:
    """Install the production manifests once: kinds, rights, and the policies that bind an agent to its node."""
    await install(control_plane)
    return control_plane


@pytest.fixture(scope="session")
async def forks() -> AsyncIterator[ForkServers]:
    """Keep what forks the agents that are processes of their own."""
    async with ForkServers() as servers:
        yield servers


@pytest.fixture
def make_node(installed: ControlPlane, forks: ForkServers) -> MakeNode:
    """Make simulated nodes on the real control plane; keyword arguments are those of the simulation file."""
    return partial(simulated_node, installed, forks)


@pytest.fixture(scope="session")
async def agent_pool() -> AsyncIterator[AgentPool]:
    """Keep a pool of agent processes that find the fake driver."""
    async with AgentPool({"LD_LIBRARY_PATH": str(FakeNvml.build().parent)}) as pool:
        yield pool


@pytest.fixture
async def killable(installed: ControlPlane, agent_pool: AgentPool) -> AsyncIterator[KillableNode]:
    """Make a node with an H100 and an A100 behind the fake driver; its agents are real processes."""
    # A short path: unix sockets lie below it.
    folder = Path(tempfile.mkdtemp(prefix="g-"))
    hardware = NvmlHardware(folder)
    try:
        async with chaos_node(installed, folder, hardware, agent_pool) as node:
            yield KillableNode(node, hardware)
    finally:
        shutil.rmtree(folder)
