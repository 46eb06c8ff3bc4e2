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
class Wanted:
    """One program of one version: Kubernetes' own version for Kubernetes' programs, their project's for others."""

    name: str
    version: str

    @property
    def minor(self) -> str:
        """Major and minor version, `1.37`: programs that agree in it are interchangeable here."""
        return self.version.rpartition(".")[0]


def wanted(name: str, kubernetes: str) -> Wanted:
    """Return the program that a cluster of that Kubernetes version needs under this name."""
    return Wanted(name, project_of(name).version or kubernetes)


async def check(program: Path, want: Wanted) -> None:
    """Ask a program of unknown origin for its version.

    Raises Unavailable when it does not run, does not say a version, or says one of another minor version.
    """
    question = project_of(want.name).questions.get(want.name, ("--version",))
    try:
        process = await asyncio.create_subprocess_exec(
            program, *question, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise Unavailable(f"{program} does not run: {error.strerror}") from error
    try:
        answer, _ = await asyncio.wait_for(process.communicate(), _ASKING_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable(f"{program} does not print its version within {_ASKING_SECONDS:.0f} s") from None
    found = _VERSION.search(answer.decode(errors="replace"))
    if found is None:
        raise Unavailable(f"{program} does not print its version")
    said = f"{found[1]}.{found[2]}"
    if said != want.minor:
        raise Unavailable(f"{program} is {found[0].removeprefix('v')}, wanted is {want.minor}")
