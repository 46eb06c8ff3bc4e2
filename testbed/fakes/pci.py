"""PCI devices in a fake /sys: where each is plugged in.

In: a folder that stands for `/`, bus ids. Out: folders of devices, found through /sys/bus/pci/devices as the kernel has it.
"""

from pathlib import Path

NVIDIA, HUAWEI, MELLANOX = 0x10DE, 0x19E5, 0x15B3
"""Vendors (linux include/linux/pci_ids.h)."""
GPU, NPU, NETWORK = 0x030200, 0x120000, 0x020700
"""Classes: 3D controller, processing accelerator, InfiniBand controller (same file; PCI Code and ID Assignment)."""


def plug(root: Path, bus_id: str, bridge: str, numa: int, *, vendor: int, device_class: int) -> Path:
    """Add a device below a root bridge (`80` is pci0000:80); returns its folder. NUMA node -1: unknown."""
    place = f"devices/pci0000:{bridge}/0000:{bridge}:01.0/{bus_id}"
    folder = root / "sys" / place
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n", encoding="ascii")
    (folder / "vendor").write_text(f"{vendor:#06x}\n", encoding="ascii")
    (folder / "class").write_text(f"{device_class:#08x}\n", encoding="ascii")
    bus = root / "sys" / "bus" / "pci" / "devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / bus_id).symlink_to(f"../../../{place}")
    return folder
