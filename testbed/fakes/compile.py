"""Shared libraries and programs from C sources, with the compiler of the PATH.

In: a folder of sources and the file's name. Out: the path of what was built, kept under a hash of sources and
flags in the user's cache folder, so that the second test run compiles nothing.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from testbed.errors import Unavailable

_FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
_LIBRARY = ("-shared", "-fPIC", "-fvisibility=hidden")


def library(sources: Path, name: str, *, shared: Path | None = None, cache: Path | None = None) -> Path:
    """Build all C files of a folder into one library called `name` (also its soname), unless that was done before.

    `shared` is a folder of further sources and headers.

    Raises Unavailable without a C compiler, or with the compiler's output.
    """
    folders = (sources, shared) if shared is not None else (sources,)
    return _built(name, folders, (*_FLAGS, *_LIBRARY, f"-Wl,-soname,{name}"), cache)


def program(sources: Path, name: str, *, cache: Path | None = None) -> Path:
    """Build all C files of a folder into a program, unless that was done before. Raises Unavailable as `library` does."""
    return _built(name, (sources,), _FLAGS, cache)


def _built(name: str, folders: Sequence[Path], flags: Sequence[str], cache: Path | None) -> Path:
    files = [file for folder in folders for file in sorted(folder.glob("*.[ch]"))]
    digest = hashlib.sha256(repr(tuple(flags)).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    root = cache or platformdirs.user_cache_path("apportion") / "testbed" / "fakes"
    built = root / digest.hexdigest()[:16] / name
    if built.is_file():
        return built
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Unavailable(
            f"{name} is built from {folders[0].name}/*.c, and no C compiler (cc) is on the PATH"
        )
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        fresh = Path(scratch) / name
        done = subprocess.run(
            [
                compiler,
                *flags,
                *(f"-I{folder}" for folder in folders),
                "-o",
                fresh,
                *(file for file in files if file.suffix == ".c"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(f"{compiler} refused {folders[0].name}/*.c: {done.stderr.strip()}")
        return fresh.replace(built)
