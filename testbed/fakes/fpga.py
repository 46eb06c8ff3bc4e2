"""A host with FPGA cards of a made-up vendor: the kernel's files in /sys, as the example of generic devices looks for them.

In: a folder that stands for `/`. Out: a tree to which cards are added, changed and removed. Layout: the kernel's for PCI devices
and for character devices of class misc (`dev`, `uevent`); `compat_id` of regions: linux Documentation/ABI/testing/sysfs-class-fpga-region.
The card's own files have no source, the card does not exist.
"""

import shutil
from pathlib import Path

from testbed.fakes.pci import plug

XILINX = 0x10EE
"""Vendor (linux include/linux/pci_ids.h)."""
ACCELERATOR = 0x120000
"""Class: processing accelerator (PCI Code and ID Assignment)."""
DRIVER = "example_fpga"
_MISC = 10
"""Major of class misc (linux include/uapi/linux/major.h)."""


class FpgaHost:
    """The FPGA part of a host's file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._minor = 120
        (root / "sys/bus/pci/drivers" / DRIVER).mkdir(parents=True)
        (root / "dev").mkdir()

    def add(self, bus_id: str, *, bridge: str = "80", numa: int = 1, **files: str) -> None:
        """Add a card; its files have these texts."""
        folder = plug(self.root, bus_id, bridge, numa, vendor=XILINX, device_class=ACCELERATOR)
        (folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{DRIVER}")
        usual = {
            "serial_number": f"XF-{bus_id[5:7]}",
            "board_name": "EX-200",
            "shell": "shell 2.1.0 (2026-03-01)",
            "regions": "4",
            "free_regions": "4",
            "dma_megabytes": "12000",
            "status": "ready",
        }
        for name, text in (usual | files).items():
            self.say(bus_id, name, text)
        self.number(bus_id)

    def say(self, bus_id: str, name: str, text: str) -> None:
        """Change the text of a card's file."""
        (self.folder(bus_id) / name).write_text(f"{text}\n", encoding="utf-8")

    def number(self, bus_id: str) -> None:
        """Give the card's device file another number, as a reload of its driver does."""
        shutil.rmtree(self.folder(bus_id) / "misc", ignore_errors=True)
        self._minor += 1
        name = f"example_fpga{self._minor}"
        entry = self.folder(bus_id) / "misc" / name
        entry.mkdir(parents=True)
        (entry / "dev").write_text(f"{_MISC}:{self._minor}\n", encoding="ascii")
        text = f"MAJOR={_MISC}\nMINOR={self._minor}\nDEVNAME=example/{name}\n"
        (entry / "uevent").write_text(text, encoding="ascii")

    def divide(self, bus_id: str, *names: str) -> None:
        """Give a card reconfigurable regions, each with a device file of its own, as class fpga_region shows them."""
        for name in names:
            entry = self.folder(bus_id) / "fpga_region" / name
            entry.mkdir(parents=True)
            self._minor += 1
            node = f"{bus_id}-{name}"
            texts = {
                "compat_id": f"{self._minor:032x}",
                "state": "ready",
                "dev": f"{_MISC}:{self._minor}",
                "uevent": f"MAJOR={_MISC}\nMINOR={self._minor}\nDEVNAME=example/{node}",
            }
            for file, text in texts.items():
                (entry / file).write_text(f"{text}\n", encoding="ascii")

    def say_of(self, bus_id: str, region: str, name: str, text: str) -> None:
        """Change the text of a region's file."""
        (self.folder(bus_id) / "fpga_region" / region / name).write_text(f"{text}\n", encoding="utf-8")

    def join(self, bus_id: str, region: str) -> None:
        """Take a region away, as another base image of the card does."""
        shutil.rmtree(self.folder(bus_id) / "fpga_region" / region)

    def remove(self, bus_id: str) -> None:
        """Pull a card out."""
        shutil.rmtree(self.folder(bus_id))
        (self.root / "sys/bus/pci/devices" / bus_id).unlink()

    def folder(self, bus_id: str) -> Path:
        """Return where the card's files are."""
        return (self.root / "sys/bus/pci/devices" / bus_id).resolve()
