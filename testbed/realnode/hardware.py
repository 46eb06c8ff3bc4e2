"""The accelerators of a real node: fake driver libraries, and the device files and tables that belong to them.

In: a node, models. Out: what the agent's process needs (environment, options) and what is on the hardware, read without the
product. It survives a reboot of the node as real cards do: without partitions.
"""

from pathlib import Path

from testbed.fakes import nvml_host
from testbed.fakes.nvml import FakeNvml
from testbed.realnode.cell import Cell


class Hardware:
    """GPUs, as many as models are named."""

    def __init__(self, cell: Cell, gpus: tuple[str, ...]) -> None:
        """Raises Unavailable without a C compiler."""
        self._cell = cell
        folder = cell.folder / "hardware"
        folder.mkdir()
        self.nvml = FakeNvml.create(folder / "nvml", gpus)
        self.root: Path = nvml_host.lay_out(self.nvml, folder / "root")

    @property
    def environment(self) -> dict[str, str]:
        """What the agent's process needs in its environment to find the libraries."""
        return dict(self.nvml.environment)

    @property
    def options(self) -> tuple[str, ...]:
        """The agent's options for this hardware."""
        return ("--backend", "nvml", "--host-root", str(self.root))

    def partitions(self) -> list[str]:
        """Return every partition that exists, in words."""
        return [f"gpu-{each.gpu} {each.profile} at {each.start}" for each in self.nvml.instances()]

    def reboot(self) -> None:
        """Forget what a reboot of the node makes cards forget."""
        self.nvml.reboot()
