"""The control daemons of a chaos node's GPUs: NVIDIA's programs and a systemd on its host, and how the GPUs are set up.

In: fake GPUs, the folder that stands for the host's `/`. Out: units that outlive agents, and what containers find: compute mode, time
slice, and what the daemon in a claim's pipe folder answers.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Final

from testbed.chaos.invariants import CardSetup
from testbed.errors import TestbedError
from testbed.fakes.nvml import programs
from testbed.fakes.nvml.library import FakeNvml
from testbed.installation import REPOSITORY

_EXCLUSIVE_PROCESS: Final = 3
"""nvmlComputeMode_t, as is the number of the mode in the fake's state."""
_SECONDS: Final = 20.0


class ControlDaemons:
    """Those of one node."""

    def __init__(self, fake: FakeNvml, root: Path, state_dir: Path, systemd: Popen[bytes]) -> None:
        self._fake = fake
        self._root = root
        self._folder = state_dir / "mps"
        self._systemd = systemd

    def reboot(self) -> None:
        """End every unit; the GPUs' own state is the fake driver's."""
        self._systemd.send_signal(signal.SIGHUP)
        _wait(lambda: not any(self._answers()), "the control daemons do not end")

    def observe(self) -> Mapping[str, CardSetup]:
        """Return how each card is set up, by its name; daemons stand at the first card, the only one that is used whole."""
        rows = self._fake.read()
        answers = tuple(self._answers())
        return {
            f"gpu-{n}": CardSetup(
                exclusive=gpu.compute_mode == _EXCLUSIVE_PROCESS,
                time_slice=int(gpu.time_slice),
                daemons=answers if n == 0 else (),
            )
            for n, gpu in enumerate(rows.gpu[: rows.gpus])
        }

    def folders(self) -> tuple[str, ...]:
        """Return the names of the daemons' folders."""
        return tuple(sorted(path.name for path in self._folder.iterdir())) if self._folder.is_dir() else ()

    def _answers(self) -> Iterator[str]:
        """Yield what each daemon answers as its share of the GPU's threads, in percent."""
        for control in sorted(self._folder.glob("*/pipe/control")):
            try:
                with socket.socket(socket.AF_UNIX) as talk:
                    talk.settimeout(_SECONDS)
                    talk.connect(str(control))
                    talk.sendall(b"get_default_active_thread_percentage\n")
                    yield talk.recv(64).decode().strip("\0\n")
            except OSError:
                continue


@contextmanager
def control_daemons(fake: FakeNvml, root: Path, state_dir: Path) -> Iterator[ControlDaemons]:
    """Install the programs and run the host's systemd; at the end all its units end."""
    programs.install(root)
    module = root / "sys/module/nvidia"
    module.mkdir(parents=True)
    (module / "version").write_text("570.86.15\n", encoding="ascii")
    path = os.pathsep.join((str(REPOSITORY / "operator"), str(REPOSITORY)))
    systemd = Popen(
        [
            *(sys.executable, REPOSITORY / "testbed" / "pdeathsig.py", str(os.getpid())),
            *(sys.executable, "-m", "testbed.fakes.systemd", str(root)),
        ],
        env={**os.environ, **fake.environment, "PYTHONPATH": path},
    )
    try:
        _wait((root / "run/dbus/system_bus_socket").exists, "the fake systemd does not start")
        yield ControlDaemons(fake, root, state_dir, systemd)
    finally:
        systemd.terminate()
        systemd.wait()


def _wait(holds: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TestbedError(otherwise)
        time.sleep(0.01)
