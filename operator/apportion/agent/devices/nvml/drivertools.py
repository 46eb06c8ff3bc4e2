"""Programs of NVIDIA's driver on the host: where they are, and in which root they run.

In: where the driver was found, a program's name. Out: the program, None when it is not installed.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from apportion.agent.devices.hostfs import HostFiles

_FOLDERS: Final = ("usr/bin", "bin")
_SHELLS: Final = ("bin/sh", "usr/bin/sh")


@dataclass(frozen=True, slots=True)
class FoundDriver:
    """Where the driver's libraries are."""

    root: str
    folder: PurePosixPath
    version: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A program of the driver."""

    path: str
    """Under which the host runs it, below `root`."""
    root: str
    """Folder that the program takes for `/`, because the driver is installed there with a system of its own; "": the host's."""
    environment: tuple[str, ...]
    """What it needs to find the driver's programs and libraries."""
    host_path: PurePosixPath
    """Where the host has it."""
    library: PurePosixPath
    """Where the host has the driver's libnvidia-ml."""


def find_tool(host: HostFiles, found: FoundDriver, name: str) -> Tool | None:
    """Return a program that is installed.

    A driver with a shell beside it has a C library, too, and runs in its own root; one without (GKE) runs in the host's
    (dra-driver-nvidia-gpu, templates/mps-control-daemon.tmpl.yaml).
    """
    path = find_program(host, found.root, name)
    if path is None:
        return None
    library = found.folder / f"libnvidia-ml.so.{found.version}"
    library = host.resolve(library) or library
    if found.root == "/":
        return Tool(str(path), "", (), path, library)
    root = PurePosixPath(found.root)
    if path.is_relative_to(root) and any(host.resolve(root / shell) for shell in _SHELLS):
        return Tool(f"/{path.relative_to(root)}", found.root, (), path, library)
    environment = (f"PATH={path.parent}:/usr/bin:/bin", f"LD_LIBRARY_PATH={found.folder}")
    return Tool(str(path), "", environment, path, library)


def find_program(host: HostFiles, root: str, name: str) -> PurePosixPath | None:
    """Return where the host has a program of a driver that is installed below `root`."""
    places = (PurePosixPath(root) / folder / name for folder in _FOLDERS)
    return next((path for place in places if (path := host.resolve(place))), None)
