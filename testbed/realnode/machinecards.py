"""The real cards of this machine for a real node, and a program that computes on them: nothing below the agent is faked.

In: this machine. Out: what the agent's process needs, and the container that computes.
"""

from pathlib import Path, PurePosixPath
from typing import Final

from apportion.agent.devices.nvml.driverfiles import DriverFiles
from testbed.api import Json
from testbed.fakes import compile as compiler

_SOURCES: Final = Path(__file__).with_name("cudacheck")
_LIBRARIES: Final = ("/lib", "/lib64")
"""The folders of the machine's C library, which the node's image has not."""


class MachineCards:
    """What `Hardware` is for fake cards. It never cuts a card: that would change the MIG mode of somebody's GPU."""

    environment: Final[dict[str, str]] = {}
    options: Final = ("--backend", "auto")

    def partitions(self) -> list[str]:
        """Return nothing: no pod of a test asks for a partition."""
        return []

    def reboot(self) -> None:
        """Leave the cards as they are: only the node is booted."""


def computing(*words: str) -> tuple[Json, list[Json]]:
    """Return fields of a container that computes on the GPUs it is given, and its pod's volumes. Raises Unavailable without a C compiler.

    `words` are arguments of cudacheck. It finds the driver's libraries where they are mounted: without NVIDIA's toolkit no hook makes them known.
    """
    program = compiler.program(_SOURCES, "cudacheck")
    folders = {
        "check": (program.parent, "/check"),
        **{
            f"libraries{number}": (Path(path).resolve(), path)
            for number, path in enumerate(_LIBRARIES)
            if Path(path).is_dir()
        },
    }
    mounts = [{"name": name, "mountPath": inside, "readOnly": True} for name, (_, inside) in folders.items()]
    volumes: list[Json] = [
        {"name": name, "hostPath": {"path": str(path)}} for name, (path, _) in folders.items()
    ]
    container: Json = {
        "command": [f"/check/{program.name}", *words],
        "env": [{"name": "LD_LIBRARY_PATH", "value": ":".join(_driver_folders())}],
        "volumeMounts": mounts,
    }
    return container, volumes


def _driver_folders() -> list[str]:
    """Return where a container has the driver's libraries."""
    places = (PurePosixPath(mount.container_path) for mount in DriverFiles().edits().mounts)
    return sorted({str(place.parent) for place in places if place.name.startswith("libcuda.so.")})
