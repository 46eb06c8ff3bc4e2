"""What a claim's row says about its control daemon: the daemon itself, and what its clients need. Pure.

In: a row, the folder of all daemons. Out: values. Limits that are a claim's own are in its containers, those of a daemon in the daemon.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apportion.agent.devices.sharing import ControlDaemon
from apportion.agent.devices.values import WRITABLE, Edits, Mount
from apportion.agent.rows import SharingRow

_PIPE: Final = "/tmp/nvidia-mps"  # noqa: S108 - where NVIDIA's programs look when nothing is set


def control_daemon(row: SharingRow, folder: Path) -> ControlDaemon:
    """Return the daemon of a claim."""
    devices = row.under_mps
    limits = () if row.own_limits else devices
    return ControlDaemon(
        row.daemon,
        folder / row.daemon,
        tuple(each.uuid for each in devices),
        None if row.own_limits else row.percentage,
        tuple((each.uuid, each.memory) for each in limits if each.memory is not None),
        row.multi_user,
    )


def client_edits(row: SharingRow, folder: Path) -> Mapping[str, Edits]:
    """Return what containers need for the devices of a claim, by their names."""
    if not row.daemon:
        return {}
    env = [("CUDA_MPS_PIPE_DIRECTORY", _PIPE)]
    if row.own_limits and row.percentage is not None:
        env.append(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(row.percentage)))
    limits = [f"{n}={each.memory}M" for n, each in enumerate(row.under_mps) if each.memory is not None]
    if row.own_limits and limits:
        env.append(("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", ",".join(limits)))
    own = folder / row.daemon
    mounts = (
        Mount(str(own / "pipe"), _PIPE, WRITABLE),
        Mount(str(own / "shm"), "/dev/shm", WRITABLE),  # noqa: S108
    )
    return {each.device: Edits(env=tuple(env), mounts=mounts) for each in row.under_mps}
