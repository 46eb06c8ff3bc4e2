"""Which hardware an agent looks for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.agent.agent import backends
from apportion.agent.settings import AgentOptions
from apportion.errors import BrokenInput


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    """Run a line in an interpreter of its own: a library that another test loaded stays loaded in this one."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_a_node_without_known_hardware_has_no_backend() -> None:
    """The production DaemonSet runs on every node; its agent idles where there is nothing to publish."""
    if fresh("import ctypes; ctypes.CDLL('libnvidia-ml.so.1')").returncode == 0:
        pytest.skip("this machine has NVIDIA's driver library")
    said = fresh(
        "from apportion.agent.agent import backends; from apportion.agent.settings import AgentOptions;"
        " print(backends(AgentOptions(node='n')))"
    )
    assert said.stdout.strip() == "()", said.stderr


def test_a_simulation_file_is_hardware(tmp_path: Path) -> None:
    """With and without asking for it by name."""
    file = tmp_path / "simulation.yaml"
    file.write_text("cards: [{model: H100-80GB}]")
    for name in ("auto", "simulated"):
        (found,) = backends(AgentOptions(node="n", backend=name, simulation=file))
        assert [card.name for card in found.devices()] == ["gpu-0"]


@pytest.mark.parametrize(
    ("name", "why"), [("simulated", "needs a simulation file"), ("magic", "unknown backend 'magic'")]
)
def test_an_impossible_choice_is_refused_by_name(name: str, why: str) -> None:
    """Before anything is started."""
    with pytest.raises(BrokenInput, match=why):
        backends(AgentOptions(node="n", backend=name))
