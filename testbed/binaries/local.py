"""Finds binaries on this machine: in a folder that the user names, and on the PATH."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import Unavailable
from testbed.versions import Program, check


class Assets:
    """The folder named by `KUBEBUILDER_ASSETS`, as in test suites of Kubernetes projects."""

    title = "KUBEBUILDER_ASSETS"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = environment.get("KUBEBUILDER_ASSETS", "")

    async def find(self, program: Program) -> Path:
        """Return the program's path. Raises Unavailable when it is not there or of another minor version."""
        if not self._folder:
            raise Unavailable("not set")
        path = Path(self._folder) / program.name
        if not os.access(path, os.X_OK):
            raise Unavailable(f"{path} is not an executable file")
        await check(path, program)
        return path


class SearchPath:
    """The PATH."""

    title = "PATH"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = environment.get("PATH", os.defpath)

    async def find(self, program: Program) -> Path:
        """Return the program's path. Raises Unavailable when it is not there or of another minor version."""
        found = shutil.which(program.name, path=self._path)
        if found is None:
            raise Unavailable(f"no {program.name} on the PATH")
        await check(Path(found), program)
        return Path(found)
