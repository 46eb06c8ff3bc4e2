"""Rows for tests of the journal, also in processes of their own that are killed."""

import os
import signal
import subprocess
import sys

from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, PartitionRow, Step

ROW = PartitionRow(
    uid="p1",
    name="node-a-x",
    device="x",
    place=PartitionPlace("gpu-0", "1g.10gb", Placement(3, 1)),
    step=Step.INTENT,
)


def claim(uid: str, *devices: str, admin: bool = False) -> ClaimRow:
    """Return a claim row on devices of gpu-0."""
    return ClaimRow(
        uid,
        "gpu.apportion.dev",
        "team",
        f"claim-{uid}",
        ClaimStep.PREPARING,
        tuple(ClaimDevice(name, "gpu-0", "node-a", ("r",), f"x={name}", admin=admin) for name in devices),
    )


def die(code: str) -> None:
    """Run code that kills its process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL
