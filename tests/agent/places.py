"""What several agent tests say about simulated hardware."""

from collections.abc import Callable
from pathlib import Path

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import CardKind, PartitionPlace, Placement
from apportion.agent.settings import AgentOptions

MakeBackend = Callable[..., SimulatedBackend]
"""The fixture `make_backend`: keyword arguments are the fields of a simulation file."""

H100 = {"model": "H100-80GB"}
"""A card of a simulation file."""

DRIVERS = AgentOptions("n").drivers
GPU, NPU, RDMA = (DRIVERS[kind] for kind in (CardKind.GPU, CardKind.NPU, CardKind.NIC))


def partition_place(backend: SimulatedBackend, card: str, profile: str, start: int) -> PartitionPlace:
    """Name a place the way the agent does: of MIG profiles the size is known, a vNPU has size 1."""
    found = next(c for c in backend.devices() if c.name == card).profile(profile)
    assert found is not None
    size = found.placements[0].size if found.placements else 1
    return PartitionPlace(card, profile, Placement(start, size))


def options_below(folder: Path) -> AgentOptions:
    """Return the options of an agent of node `n` whose files are all below a folder; its simulation is `node.yaml` there."""
    return AgentOptions(
        node="n",
        simulation=folder / "node.yaml",
        plugins_dir=folder / "p",
        registry_dir=folder / "r",
        cdi_dir=folder / "cdi",
        state_dir=folder / "state",
        run_dir=folder / "run",
        nri_socket=folder / "nri.sock",
        boot_id=folder / "boot",
        # No kubelet is there.
        registration_patience=0,
    )
