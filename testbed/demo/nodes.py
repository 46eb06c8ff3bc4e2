"""The demo's nodes: two with eight H100, one with eight Ascend 910B4, one with eight Ascend 310P, one with two FPGA cards.

In: nothing. Out: the nodes, and the manifests that an installation on them needs.
"""

from pathlib import Path
from typing import Any

from testbed.fakes.fpga import FpgaHost
from testbed.installation import MANIFESTS, SimulatedNode

DEMO_MANIFESTS = Path(__file__).parent / "manifests"
"""Those of the product with the components for generic devices and extended resources."""


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
    cards = {"model": model, "count": 8, "driverVersion": "25.2.0", "addresses": model != "310P"}
    return SimulatedNode(name, {"cards": [cards]})


def fpga(name: str) -> SimulatedNode:
    """Return a node with two FPGA cards that no backend knows; one of them is divided into four regions."""

    def lay_out(host: Path) -> Path:
        if not host.exists():
            cards = FpgaHost(host)
            cards.add("0000:1a:00.0", bridge="18", numa=0, free_regions="0")
            cards.divide("0000:1a:00.0", *(f"region{number}" for number in range(4)))
            cards.add("0000:9d:00.0")
        return MANIFESTS / "components/generic-devices/devices.yaml"

    return SimulatedNode(name, {}, lay_out=lay_out)


def demo_nodes() -> list[SimulatedNode]:
    """Return the five nodes of the demo."""
    return [
        h100("h100-a"),
        h100("h100-b"),
        ascend("ascend-910b4-a", "910B4"),
        ascend("ascend-310p-a", "310P"),
        fpga("fpga-a"),
    ]
