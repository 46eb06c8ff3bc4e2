"""The accelerators of a real node: fake driver libraries, and the device files and tables that belong to them.

In: a node, models. Out: what the agent's process needs (environment, options) and what is on the hardware, read without the
product. After a reboot of the node it has no partitions, as real cards.
"""

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from testbed.fakes.dcmi import host as dcmi_host
from testbed.fakes.dcmi.library import FakeDcmi
from testbed.fakes.nvml import host as nvml_host
from testbed.fakes.nvml.library import FakeNvml
from testbed.realnode.isolatedhost import IsolatedHost

DAVINCI_MAJOR: Final = 235
VDAVINCI_MAJOR: Final = 236
"""Numbers that no kernel module of this machine serves, so opening such a file fails."""
_VNPUS_PER_CHIP = 16


class NodeCards(Protocol):
    """The cards of a real node, fake or the machine's own."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the agent's process needs in its environment."""

    @property
    def options(self) -> tuple[str, ...]:
        """The agent's options."""

    def partitions(self) -> list[str]:
        """Return every partition that exists, in words."""

    def reboot(self) -> None:
        """Remove what a reboot of the node removes."""


class Hardware:
    """GPUs and NPUs, as many as models are named."""

    def __init__(self, host: IsolatedHost, *, gpus: Sequence[str], npus: Sequence[str]) -> None:
        """Raises Unavailable without a C compiler."""
        folder = Path(tempfile.mkdtemp(dir=host.folder, prefix="hardware-"))
        self.root = folder / "root"
        self.nvml = FakeNvml.create(folder / "nvml", gpus)
        nvml_host.lay_out(self.nvml, self.root)
        self.dcmi = FakeDcmi.create(folder / "dcmi", npus)
        dcmi_host.lay_out(self.dcmi, self.root)
        self._device_files(len(npus))

    @property
    def environment(self) -> dict[str, str]:
        """What the agent's process needs in its environment to find the libraries."""
        parts = (self.nvml.environment, self.dcmi.environment)
        folders = os.pathsep.join(each["LD_LIBRARY_PATH"] for each in parts)
        return {**parts[0], **parts[1], "LD_LIBRARY_PATH": folders}

    @property
    def options(self) -> tuple[str, ...]:
        """The agent's options for this hardware: it finds both libraries, as on a node that has both drivers."""
        return ("--backend", "auto", "--host-root", str(self.root))

    def partitions(self) -> list[str]:
        """Return every partition that exists, in words."""
        gpus = [f"gpu-{each.gpu} {each.profile} at {each.start}" for each in self.nvml.instances()]
        return gpus + [f"npu {each.phy} {each.template} as {each.id}" for each in self.dcmi.vnpus()]

    def minors(self, uuid: str) -> set[int]:
        """Return the minor of the GPU with this UUID, or of the GPU that a MIG device with this UUID lies on; empty for others."""
        gpus = self.nvml.read().gpu
        cards = {int(gpu.minor) for gpu in gpus if gpu.uuid.decode() == uuid}
        parts = {
            int(gpus[row.gpu].minor)
            for row in self.nvml.instances()
            if uuid in [compute.uuid for compute in row.compute]
        }
        return cards | parts

    def reboot(self) -> None:
        """Remove what a reboot of the node removes."""
        self.nvml.reboot()
        self.dcmi.reboot()

    def _device_files(self, chips: int) -> None:
        """Make the NPUs' device files as the driver does, with numbers that identify a container's files."""
        files = {name: (DAVINCI_MAJOR, 250 + index) for index, name in enumerate(dcmi_host.MANAGERS)}
        for chip in range(chips):
            files[f"davinci{chip}"] = (DAVINCI_MAJOR, chip)
            first = chip * 16 + 100
            files |= {
                f"vdavinci{number}": (VDAVINCI_MAJOR, number)
                for number in range(first, first + _VNPUS_PER_CHIP)
            }
        for name, (major, minor) in files.items():
            path: Path = self.root / "dev" / name
            path.unlink(missing_ok=True)
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
