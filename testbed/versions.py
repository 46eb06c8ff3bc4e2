"""The programs of a control plane and of a node, their versions, and a check of a program's version."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.errors import Unavailable
from testbed.projects import project_of

DEFAULT: Final = "1.37.0"
OLDEST: Final = "1.36.3"
SUPPORTED: Final = (DEFAULT, OLDEST)
CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE: Final = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback")

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_ASKING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """One program of one version: Kubernetes' own version for Kubernetes' programs, their project's for others."""

    name: str
    version: str

    @property
    def minor(self) -> str:
        """Major and minor version, `1.37`: programs that agree in it are interchangeable here."""
        return self.version.rpartition(".")[0]


def program_of(name: str, kubernetes: str) -> Program:
    """Return the program that a cluster of that Kubernetes version needs under this name."""
    return Program(name, project_of(name).version or kubernetes)


async def check(path: Path, program: Program) -> None:
    """Ask a program of unknown origin for its version.

    Raises Unavailable when it does not run, does not say a version, or says one of another minor version.
    """
    arguments = project_of(program.name).version_arguments.get(program.name, ("--version",))
    try:
        process = await asyncio.create_subprocess_exec(
            path, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise Unavailable(f"{path} does not run: {error.strerror}") from error
    try:
        async with asyncio.timeout(_ASKING_SECONDS):
            answer, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable(f"{path} does not print its version within {_ASKING_SECONDS:.0f} s") from None
    found = _VERSION.search(answer.decode(errors="replace"))
    if found is None:
        raise Unavailable(f"{path} does not print its version")
    said = f"{found[1]}.{found[2]}"
    if said != program.minor:
        raise Unavailable(f"{path} is {found[0].removeprefix('v')}, wanted is {program.minor}")
