"""Programs of Debian packages, unpacked below the user's cache: nothing is installed, and nothing of the system changes.

In: the name of a package. Out: a folder with the package and those packages that it needs and this machine lacks.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

from testbed.errors import Unavailable

_LONGEST = 180.0
"""Seconds that one command may take."""


async def unpacked(package: str) -> Path:
    """Return the folder that a package is unpacked in. Raises Unavailable where that is impossible, with the reason."""
    root = platformdirs.user_cache_path("apportion") / "testbed" / "debian"
    root.mkdir(parents=True, exist_ok=True)
    place = root / package
    with (root / f".{package}.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=root) as scratch:
                await _unpack(package, Path(scratch))
                (Path(scratch) / "root").rename(place)
    return place


def libraries(place: Path) -> str:
    """Return the value of LD_LIBRARY_PATH by which a program in the folder finds its libraries."""
    return os.pathsep.join(
        sorted({str(each.parent) for each in (place / "usr/lib").glob("*-linux-gnu/**/*.so*")})
    )


async def _unpack(package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{package} is a package of Debian, and this machine has no apt-get")
    try:
        wanted = await _wanted(package)
    except Unavailable:
        # Package lists are left out of many images; only root may fetch them.
        if os.getuid():
            raise
        await _run("apt-get", "update", "-q")
        wanted = await _wanted(package)
    try:
        await _run("apt-get", "download", "-q", *wanted, folder=folder)
    except Unavailable:
        # Lists that are older than the archive name versions that are gone.
        if os.getuid():
            raise
        await _run("apt-get", "update", "-q")
        await _run("apt-get", "download", "-q", *await _wanted(package), folder=folder)
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - a few names
        if name.endswith(".deb"):
            await _run("dpkg-deb", "--extract", str(folder / name), str(folder / "root"))


async def _wanted(package: str) -> list[str]:
    """Return the package and those that it needs and that are not installed."""
    said = await _run("apt-get", "install", "--simulate", "--no-install-recommends", "-q", package)
    needed = (line.split()[1] for line in said.splitlines() if line.startswith("Inst "))
    return [package, *(name for name in needed if name != package)]


async def _run(*command: str, folder: Path | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(_LONGEST):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable(f"{' '.join(command[:2])} took longer than {_LONGEST:.0f} s") from None
    if process.returncode:
        last = err.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        raise Unavailable(f"{' '.join(command[:2])}: {last[0]}")
    return out.decode(errors="replace")
