"""Which hardware an agent looks for."""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.agent.backends import backends
from apportion.agent.devices import backend as protocol
from apportion.agent.devices.backend import Backend
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import CardKind
from apportion.agent.settings import AgentOptions
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.errors import BrokenInput, Lost
from testbed.fakes.dcmi import host as dcmi_host
from testbed.fakes.dcmi.library import FakeDcmi
from testbed.fakes.nvml import host as nvml_host
from testbed.fakes.nvml.library import FakeNvml
from testbed.fakes.rdma import RdmaHost
from tests.agent.places import DRIVERS


def fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line in an interpreter of its own: a library that another test loaded stays loaded in this one."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=own | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_node_without_known_hardware_has_no_backend(tmp_path: Path) -> None:
    """The production DaemonSet runs on every node; its agent idles where there is nothing to publish."""
    if fresh("import ctypes; ctypes.CDLL('libnvidia-ml.so.1')").returncode == 0:
        pytest.skip("this machine has NVIDIA's driver library")
    said = fresh(
        "from pathlib import Path; from apportion.agent.backends import backends;"
        " from apportion.agent.settings import AgentOptions;"
        f" print(backends(AgentOptions(node='n', host_root=Path({str(tmp_path)!r}))))"
    )
    assert said.stdout.strip() == "()", said.stderr


@pytest.mark.slow
def test_auto_finds_all_that_is_there(tmp_path: Path) -> None:
    """GPUs, NPUs and NICs in one agent; a library whose driver does not answer is an error, not a node without."""
    gpus = FakeNvml.create(tmp_path / "nvml", ["H100-80GB", "A100-40GB"])
    npus = FakeDcmi.create(tmp_path / "dcmi", ["910B4"])
    root = tmp_path / "root"
    nvml_host.lay_out(gpus, root)
    dcmi_host.lay_out(npus, root)
    RdmaHost(root).add("mlx5_0", "0000:9d:00.0", bridge="80")
    both = gpus.environment | npus.environment
    both["LD_LIBRARY_PATH"] = f"{gpus.library.parent}:{npus.library.parent}"
    code = (
        "from pathlib import Path; from apportion.agent.backends import backends;"
        " from apportion.agent.settings import AgentOptions;"
        f" found = backends(AgentOptions(node='n', host_root=Path({str(root)!r})));"
        " print(*(f'{card.name}@{card.location.pcie_root}' for each in found for card in each.devices()))"
    )
    said = fresh(code, **both)
    assert said.stdout.splitlines()[-1] == (
        "gpu-0@pci0000:10 gpu-1@pci0000:10 npu-0@pci0000:80 nic-mlx5-0@pci0000:80"
    ), said.stderr
    gpus.unload()
    assert "Driver Not Loaded" in fresh(code, **both).stderr
    # The agent goes on with the others, and knows what it waits for.
    said = fresh(
        code.replace("import backends", "import find")
        .replace("found = backends", "everything = find")
        .split(" print")[0]
        + " print(*(type(each).__name__ for each in everything.backends), everything.absent, everything.awaited)",
        **both,
    )
    last = said.stdout.splitlines()[-1]
    assert last.startswith(
        "AscendBackend RdmaBackend ('nvml',) {<CardKind.GPU: 'gpu'>: 'nvml: NVML: nvmlInit"
    ), said.stderr
    assert "Driver Not Loaded" in last


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


async def test_the_example_of_the_protocol_runs_and_its_card_is_published() -> None:
    """It has every method of the protocol, and the agent's own parts take it as it is."""
    (example,) = [each for each in doctest.DocTestFinder().find(protocol, extraglobs=None) if each.examples]
    runner = doctest.DocTestRunner()
    assert runner.run(example, clear_globs=False).failed == 0
    backend: Backend = example.globs["backend"]
    wanted = {name for name, member in vars(Backend).items() if callable(member) and name[0] != "_"}
    assert wanted <= set(dir(backend))
    hardware = Hardware([backend])
    cards = await hardware.discover()
    (pool,) = pools(NodeInventory(cards=tuple(cards.values())), DRIVERS)
    assert [row["name"] for content in pool.contents for row in content.rows] == ["gpu-0"]


async def test_two_backends_with_a_card_of_one_name_are_refused(tmp_path: Path) -> None:
    """One of the cards would be lost in silence."""
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in files:
        file.write_text("cards: [{model: H100-80GB}]")
    hardware = Hardware([SimulatedBackend(file, "n") for file in files])
    with pytest.raises(BrokenInput, match="two backends of this node have a card gpu-0"):
        await hardware.discover()


async def test_a_backend_that_fails_at_discovery_costs_nobody_the_others(tmp_path: Path) -> None:
    """What it may have is unknown, not gone; when it answers, its cards are there."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_0", "0000:9d:00.0")
    gpus = FakeNvml.create(tmp_path / "nvml", ["H100-80GB"])
    gpus.preload()
    gpus.unload()
    nvml = NvmlBackend(tmp_path)
    hardware = Hardware([nvml, RdmaBackend(tmp_path)])
    assert set(await hardware.discover()) == {"nic-mlx5-0"}
    assert hardware.incomplete
    assert "Driver Not Loaded" in hardware.unknown[0]
    with pytest.raises(Lost, match="gpu-0: nobody knows what is on it"):
        await hardware.partitions_of("gpu-0")
    gpus.unload(loaded=True)
    assert set(await hardware.discover()) == {"gpu-0", "nic-mlx5-0"}
    assert not hardware.incomplete
    nvml.close()


async def test_what_is_on_a_card_whose_driver_is_awaited_is_unknown() -> None:
    """Else its journal would be cleared while it is waited for; cards of other kinds are not on the node."""
    hardware = Hardware([], awaited={CardKind.GPU: "nvml: no driver"})
    assert await hardware.discover() == {}
    with pytest.raises(Lost, match="gpu-0: nobody knows what is on it: nvml: no driver"):
        await hardware.partitions_of("gpu-0")
    assert await hardware.partitions_of("npu-0") == ()


@pytest.mark.slow
@pytest.mark.parametrize("gone", [False, True], ids=["on the bus", "gone"])
def test_hardware_without_a_driver_is_awaited_while_it_is_on_the_bus(tmp_path: Path, *, gone: bool) -> None:
    """Whose PCI devices are gone, too, is not waited for."""
    if fresh("import ctypes; ctypes.CDLL('libnvidia-ml.so.1')").returncode == 0:
        pytest.skip("this machine has NVIDIA's driver library")
    root = nvml_host.lay_out(FakeNvml.create(tmp_path / "nvml", ["H100-80GB"]), tmp_path / "root")
    if gone:
        for link in (root / "sys/bus/pci/devices").iterdir():
            link.unlink()
    said = fresh(
        "from pathlib import Path; from apportion.agent.backends import find;"
        " from apportion.agent.settings import AgentOptions;"
        f" found = find(AgentOptions(node='n', host_root=Path({str(root)!r})));"
        " print(found.absent, [str(kind) for kind in found.awaited])"
    )
    wanted = "('nvml', 'ascend', 'rdma') []" if gone else "('nvml', 'ascend', 'rdma') ['gpu']"
    assert said.stdout.splitlines()[-1] == wanted, said.stderr
