"""The commit that a version is made from.

In: a checkout and the name of a commit. Out: its id, its time, its files in a folder of their own, so that nothing that is not committed gets into a version.
"""

import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import TestbedError


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the repository."""

    repository: Path
    digest: str
    """Its id, all hexadecimal digits."""
    seconds: int
    """When it was committed, in seconds since 1970."""

    def extract(self, folder: Path) -> None:
        """Write its files into a folder."""
        archive = _git(self.repository, "archive", "--format=tar", self.digest)
        with tarfile.open(fileobj=io.BytesIO(archive)) as content:
            content.extractall(folder, filter="data")


def commit(repository: Path, name: str) -> Commit:
    """Return a commit by a name that git knows. Raises TestbedError with what git says."""
    said = _git(repository, "log", "-1", "--format=%H %ct", name, "--").decode()
    digest, seconds = said.split()
    return Commit(repository, digest, int(seconds))


def _git(repository: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(repository), *arguments], check=False, capture_output=True)
    if done.returncode:
        raise TestbedError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
