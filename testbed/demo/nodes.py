"""The demo's nodes: two with eight H100, one with eight Ascend 910B4, one with eight Ascend 310P."""

from typing import Any

from testbed.installation import SimulatedNode


def h100(name: str) -> SimulatedNode:
    """Return a node with eight H100 and eight RDMA NICs, two of each behind one PCIe root."""
    nics: list[dict[str, Any]] = [
        {
            "name": f"mlx5-{index}",
            "pcieRoot": f"pci0000:{0x10 * (1 + index // 2):02x}",
            "numaNode": index // 4,
        }
        for index in range(8)
    ]
    cards = [{"model": "H100-80GB", "count": 8, "driverVersion": "550.90.7", "cudaDriverVersion": "12.4.0"}]
    return SimulatedNode(name, {"cards": cards, "nics": nics})


def ascend(name: str, model: str) -> SimulatedNode:
    """Return a node with eight Ascend chips of one model."""
    return SimulatedNode(name, {"cards": [{"model": model, "count": 8, "driverVersion": "25.2.0"}]})


def demo_nodes() -> list[SimulatedNode]:
    """Return the four nodes of the demo."""
    return [
        h100("h100-a"),
        h100("h100-b"),
        ascend("ascend-910b4-a", "910B4"),
        ascend("ascend-310p-a", "310P"),
    ]
