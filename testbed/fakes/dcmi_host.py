"""The host of a fake DCMI: what the kernel would show in /sys, and the driver's device files.

In: a fake, a folder. Out: a tree that stands for `/`: where chips are plugged in, and the device files that containers get
beside their own chip's (plain files: only whether they are there is looked at).
"""

from pathlib import Path

from testbed.fakes.dcmi import FakeDcmi

MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")


def lay_out(fake: FakeDcmi, root: Path) -> Path:
    """Make the tree and return its root; two chips share each PCIe root."""
    state = fake.read()
    bus = root / "sys" / "bus" / "pci" / "devices"
    bus.mkdir(parents=True, exist_ok=True)
    for index, chip in enumerate(state.chip[: state.chips]):
        own = f"{chip.domain:04x}:{chip.bus:02x}:{chip.slot:02x}.{chip.function:x}"
        bridge = 0x80 + 0x10 * (index // 2)
        place = f"devices/pci0000:{bridge:02x}/0000:{bridge:02x}:00.0/{own}"
        folder = root / "sys" / place
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{chip.numa}\n", encoding="ascii")
        (bus / own).symlink_to(f"../../../{place}")
    files = root / "dev"
    files.mkdir(exist_ok=True)
    for name in (*MANAGERS, *(f"davinci{chip.phy}" for chip in state.chip[: state.chips])):
        (files / name).touch()
    return root
