"""What MPS takes on a real node: NVIDIA's programs where agent and container runtime find them, and the host's systemd.

In: an installation. Out: the same with fake programs and a fake systemd, as long as the context lasts.
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from testbed.fakes.nvml import programs
from testbed.installation import REPOSITORY, product_environment
from testbed.process import Process
from testbed.realnode.installation import RealNodeInstallation

_DRIVER = "nvidia/driver"
"""Below /run: where the GPU operator's driver container has its root."""
_GRACE_SECONDS = 5.0
CONTROL = f"{_DRIVER}/usr/bin/nvidia-cuda-mps-control"


@asynccontextmanager
async def mps_host(installation: RealNodeInstallation) -> AsyncIterator[None]:
    """Install the driver's programs where agent and container runtime find them, and run the host's systemd."""
    host, hardware = installation.node.host, installation.hardware
    for root in (hardware.root / "run" / _DRIVER, host.run / _DRIVER):
        programs.install(root)
    module = hardware.root / "sys/module/nvidia"
    module.mkdir(parents=True, exist_ok=True)
    (module / "version").write_text("570.86.15\n", encoding="ascii")
    path = os.pathsep.join((str(REPOSITORY / "operator"), str(REPOSITORY)))
    command = host.command(sys.executable, "-m", "testbed.fakes.systemd", str(hardware.root))
    environment = product_environment() | hardware.environment | {"PYTHONPATH": path}
    systemd = Process.start("systemd", command, host.folder / "systemd.log", environment=environment)
    try:
        yield
    finally:
        await systemd.stop(_GRACE_SECONDS)
        for root in (hardware.root / "run" / _DRIVER, host.run / _DRIVER):
            shutil.rmtree(root)
        (module / "version").unlink()
