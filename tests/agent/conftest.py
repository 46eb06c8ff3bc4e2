from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.agent.devices.simulated import SimulatedBackend
from testbed.controlplane import ControlPlane
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
