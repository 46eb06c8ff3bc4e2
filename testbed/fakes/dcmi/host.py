"""The host of a fake DCMI: the kernel's files in /sys, and the driver's device files.

In: a fake, a folder. Out: a tree that stands for `/`: where chips are plugged in, and the device files that all
containers get.
"""

import os
import stat
from pathlib import Path

from testbed.fakes.dcmi.library import FakeDcmi
from testbed.fakes.pci import HUAWEI, NPU, plug

_MAJOR = 511
"""Of a range that the kernel gives out dynamically and rarely reaches."""

MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")


def lay_out(fake: FakeDcmi, root: Path, *, device_files: bool = False) -> Path:
    """Make the tree and return its root; two chips share each PCIe root.

    `device_files`: the files in /dev are character devices without a driver, which takes root to make.
    """
    state = fake.read()
    for index, chip in enumerate(state.chip[: state.chips]):
        own = f"{chip.domain:04x}:{chip.bus:02x}:{chip.slot:02x}.{chip.function:x}"
        bridge = f"{0x80 + 0x10 * (index // 2):02x}"
        plug(root, own, bridge, chip.numa, vendor=HUAWEI, device_class=NPU)
    files = root / "dev"
    files.mkdir(parents=True, exist_ok=True)
    chips = [f"davinci{chip.phy}" for chip in state.chip[: state.chips]]
    # udev makes a vNPU's file when the driver makes the vNPU; here every possible one is there from the start.
    vnpus = [
        f"vdavinci{chip.first_id + number}"
        for chip in state.chip[: state.chips]
        for number in range(chip.ids)
    ]
    for number, name in enumerate((*MANAGERS, *chips, *vnpus)):
        if device_files:
            os.mknod(files / name, 0o666 | stat.S_IFCHR, os.makedev(_MAJOR, number))
        else:
            (files / name).touch()
    return root
