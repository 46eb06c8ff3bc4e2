"""What several agent tests say about simulated hardware."""

from collections.abc import Callable

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import Kind, Placement, Spot

MakeBackend = Callable[..., SimulatedBackend]
"""The fixture `make_backend`: keyword arguments are the fields of a simulation file."""

DRIVERS = {Kind.GPU: "gpu.apportion.dev", Kind.NPU: "npu.apportion.dev", Kind.NIC: "rdma.apportion.dev"}


def spot(backend: SimulatedBackend, card: str, profile: str, start: int) -> Spot:
    """Name a place the way the agent does: of MIG profiles the size is known, a vNPU has size 1."""
    found = next(c for c in backend.devices() if c.name == card).profile(profile)
    assert found is not None
    size = found.placements[0].size if found.placements else 1
    return Spot(card, profile, Placement(start, size))
