"""How programs share the NVIDIA GPUs of this node: compute modes by NVML, time slices by nvidia-smi, MPS by its control daemon.

In: cards by name. Out: the driver's and the host's answers (`devices/sharing.py:Sharing`).
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pynvml

from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.nvml.cards import Gpu
from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.devices.nvml.mps import MpsDaemons
from apportion.agent.devices.nvml.session import Session
from apportion.agent.devices.nvml.timeslice import TimeSlices
from apportion.agent.devices.sharing import ControlDaemon, TimeSlice
from apportion.agent.devices.systemd import Systemd
from apportion.errors import NotReady, Unsupported


class GpuSharing:
    """Sets up the GPUs that a backend knows."""

    def __init__(
        self,
        root: Path,
        session: Session,
        driver: DriverFiles,
        gpu: Callable[[str], Gpu],
        smi_seconds: float,
    ) -> None:
        """`root` is where the host's `/` is; `gpu` finds a GPU by the name of its card, or raises Unsupported; `smi_seconds`: how long nvidia-smi may take."""
        self._session = session
        self._gpu = gpu
        self._slices = TimeSlices(HostFiles(root), driver, smi_seconds)
        self._daemons = MpsDaemons(Systemd(root), driver)

    def set_time_slice(self, card: str, time_slice: TimeSlice) -> None:
        """Set the time slice of a whole GPU. Raises Lost for the default of a GPU that is lost: a reset brings it back with that."""
        uuid = self._gpu(card).card.uuid
        try:
            self._slices.set(uuid, time_slice)
        except (NotReady, Unsupported):
            if time_slice is TimeSlice.DEFAULT:
                # nvidia-smi does not say that it is the GPU that is not there.
                self._session.call("nvmlDeviceGetMemoryInfo", self._session.handle(uuid, card), about=card)
            raise

    def set_exclusive(self, card: str, *, exclusive: bool) -> None:
        """Set the compute mode, which is EXCLUSIVE_PROCESS under MPS and else DEFAULT (dra-driver-nvidia-gpu, sharing.go)."""
        mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if exclusive else pynvml.NVML_COMPUTEMODE_DEFAULT
        handle = self._session.handle(self._gpu(card).card.uuid, card)
        self._session.call("nvmlDeviceSetComputeMode", handle, mode, about=card)

    def start_daemon(self, daemon: ControlDaemon, seconds: float) -> None:
        """Have a control daemon run."""
        self._daemons.start(daemon, seconds)

    def stop_daemon(self, name: str) -> None:
        """End a control daemon."""
        self._daemons.stop(name)

    def has_limits(self, daemon: ControlDaemon) -> bool:
        """Say whether a control daemon that runs has its limits."""
        return self._daemons.has_limits(daemon)

    def daemons(self) -> Mapping[str, bool]:
        """Return the control daemons that are there, and whether each is ready."""
        return self._daemons.states()
