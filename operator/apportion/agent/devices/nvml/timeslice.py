"""Time slices of NVIDIA GPUs, set by the host's nvidia-smi.

In: a GPU's UUID, a time slice. Out: nothing, or an Unsupported with what the program said. NVML has no call for it (nvml.h and
pynvml know time slices of vGPU schedulers only); NVIDIA's driver runs nvidia-smi, too (dra-driver-nvidia-gpu 95932046,
nvlib.go `setTimeSlice`).
"""

import os
import subprocess
from typing import Final

from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.devices.sharing import TimeSlice
from apportion.errors import Lost, NotReady, Unsupported

_PROGRAM: Final = "nvidia-smi"


class TimeSlices:
    """Sets time slices through the program of the host's driver."""

    def __init__(self, host: HostFiles, driver: DriverFiles, seconds: float) -> None:
        """`seconds`: how long the program may take."""
        self._host = host
        self._driver = driver
        self._seconds = seconds

    def set(self, uuid: str, time_slice: TimeSlice) -> None:
        """Set the time slice of a whole GPU.

        Raises Unsupported when the host has no nvidia-smi or it refuses, NotReady when it does not answer; Lost when a driver that has
        left the host is asked for its default, which the next one has.
        """
        tool = self._driver.tool(_PROGRAM)
        if tool is None:
            kind = Lost if time_slice is TimeSlice.DEFAULT else Unsupported
            raise kind(f"the host's driver has no {_PROGRAM}, which sets time slices")
        command = [
            str(self._host.here(tool.host_path)),
            *("compute-policy", "-i", uuid, "--set-timeslice", str(int(time_slice))),
        ]
        # The program is the host's and its C library the agent's: of the host it needs this one library.
        environment = {**os.environ, "LD_PRELOAD": str(self._host.here(tool.library))}
        try:
            done = subprocess.run(  # noqa: S603 - every word is ours but the UUID, which is the driver's
                command, env=environment, capture_output=True, text=True, timeout=self._seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotReady(
                f"{uuid}: {_PROGRAM} has not set the time slice within {self._seconds:g} s"
            ) from None
        except OSError as error:
            raise Unsupported(f"{uuid}: {_PROGRAM} cannot be run: {error}") from None
        if done.returncode != 0:
            said = " ".join(f"{done.stdout} {done.stderr}".split()) or f"status {done.returncode}"
            raise Unsupported(f"{uuid}: {_PROGRAM} sets no time slice: {said[:300]}")
