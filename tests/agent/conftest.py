import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.agent.devices.simulated.backend import SimulatedBackend
from testbed.chaos.brood import Brood
from testbed.chaos.ground import NvmlGround
from testbed.chaos.staging import staged
from testbed.controlplane import ControlPlane
from testbed.fakes.nvml import build
from tests.agent.killablenode import KillableNode
from tests.agent.places import MakeBackend
from tests.agent.simulated_node import SimulatedNode, install, simulated_node


@pytest.fixture
def make_backend(tmp_path: Path) -> MakeBackend:
    """Make simulated backends; keyword arguments are the fields of the simulation file."""
    made = iter(range(1000))

    def make(node: str = "node-a", **fields: Any) -> SimulatedBackend:
        file = tmp_path / f"simulation-{next(made)}.yaml"
        file.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return SimulatedBackend(file, node)

    return make


@pytest.fixture(scope="session")
async def installed(control_plane: ControlPlane) -> ControlPlane:
    """Install the production manifests once: kinds, rights, and the policies that bind an agent to its node."""
    await install(control_plane)
    return control_plane


@pytest.fixture
def make_node(installed: ControlPlane) -> Callable[..., AbstractAsyncContextManager[SimulatedNode]]:
    """Make simulated nodes on the real control plane; keyword arguments are those of the simulation file."""
    return partial(simulated_node, installed)


@pytest.fixture(scope="session")
async def brood() -> AsyncIterator[Brood]:
    """Keep a nursery of agent processes that find the fake driver."""
    async with Brood({"LD_LIBRARY_PATH": str(build().parent)}) as nursery:
        yield nursery


@pytest.fixture
async def killable(installed: ControlPlane, brood: Brood) -> AsyncIterator[KillableNode]:
    """Make a node with an H100 and an A100 behind the fake driver; its agents are real processes."""
    # A short path: unix sockets lie below it.
    folder = Path(tempfile.mkdtemp(prefix="g-"))
    ground = NvmlGround(folder)
    try:
        async with staged(installed, folder, ground, brood) as node:
            yield KillableNode(node, ground)
    finally:
        shutil.rmtree(folder)
