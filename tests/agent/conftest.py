from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.agent.devices.simulated import SimulatedBackend
from tests.agent.places import MakeBackend


@pytest.fixture
def make_backend(tmp_path: Path) -> MakeBackend:
    """Make simulated backends; keyword arguments are the fields of the simulation file."""
    made = iter(range(1000))

    def make(node: str = "node-a", **fields: Any) -> SimulatedBackend:
        file = tmp_path / f"simulation-{next(made)}.yaml"
        file.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return SimulatedBackend(file, node)

    return make
