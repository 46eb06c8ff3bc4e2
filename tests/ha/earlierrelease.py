"""The code of an earlier commit beside today's.

In: a folder. Out: the tree of that commit below it. It runs with today's dependencies.
"""

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from testbed.installation import REPOSITORY

COMMIT: Final = "1c35a7b8eb2c60728f0687fd5d2781111c6f9210"
"""The release before this one."""


def earlier_release(folder: Path) -> Path:
    """Unpack the earlier commit; skips the test where the clone does not have it."""
    asked = ("git", "-C", REPOSITORY, "archive", "--format=tar", COMMIT, "operator", "manifests", "crds")
    found = subprocess.run(asked, capture_output=True, check=False)
    if found.returncode != 0:
        said = found.stderr.decode(errors="replace").strip()
        pytest.skip(
            f"commit {COMMIT} is not here ({said}); a shallow clone gets it by `git fetch --unshallow`"
        )
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
