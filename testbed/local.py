"""Finds binaries on this machine: in a folder that the user names, and on the PATH."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import Unavailable
from testbed.versions import Wanted, check


class Assets:
    """The folder named by `KUBEBUILDER_ASSETS`, as in test suites of Kubernetes projects."""

    title = "KUBEBUILDER_ASSETS"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = environment.get("KUBEBUILDER_ASSETS", "")

    async def find(self, want: Wanted) -> Path:
        """Return the program's path. Raises Unavailable when it is not there or of another minor version."""
        if not self._folder:
            raise Unavailable("not set")
        program = Path(self._folder) / want.name
        if not os.access(program, os.X_OK):
            raise Unavailable(f"{program} is not an executable file")
        await check(program, want)
        return program


class SearchPath:
    """The PATH."""

    title = "PATH"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = environment.get("PATH", os.defpath)

    async def find(self, want: Wanted) -> Path:
        """Return the program's path. Raises Unavailable when it is not there or of another minor version."""
        found = shutil.which(want.name, path=self._path)
        if found is None:
            raise Unavailable(f"no {want.name} on the PATH")
        await check(Path(found), want)
        return Path(found)
