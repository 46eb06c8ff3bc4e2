"""Programs of a Debian package, unpacked into the user's cache: nothing is installed on the machine.

In: the name of a package, and of programs in it. Out: their paths. Raises Unavailable, with the reason, on machines without apt-get, and
where the package cannot be had.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from testbed.errors import Unavailable

_LONGEST = 180.0
"""Seconds that one command may take."""


async def programs(package: str, *names: str, root: Path | None = None) -> dict[str, Path]:
    """Return the paths of programs below the package's /usr/bin, fetched by the first call; `root`: another cache."""
    place = (root or platformdirs.user_cache_path("apportion") / "testbed") / "debian" / package
    if not all((place / "usr/bin" / name).is_file() for name in names):
        missing = [each for each in ("apt-get", "dpkg-deb") if shutil.which(each) is None]
        if missing:
            raise Unavailable(f"{package} is had as a Debian package, and {', '.join(missing)} is not here")
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{package}-", dir=place.parent) as scratch:
            await _fetch(package, Path(scratch))
            shutil.rmtree(place, ignore_errors=True)
            (Path(scratch) / "unpacked").replace(place)
    found = {name: place / "usr/bin" / name for name in names}
    absent = [name for name, path in found.items() if not path.is_file()]
    if absent:
        raise Unavailable(f"package {package} has no {', '.join(absent)}")
    return found


async def _fetch(package: str, folder: Path) -> None:
    """Download a package and unpack it; lists of packages that are missing or old are renewed, which only root may."""
    try:
        await _run(["apt-get", "download", package], folder)
    except Unavailable as error:
        if os.geteuid() != 0:
            raise Unavailable(
                f"{error}; only root may renew the lists of packages (apt-get update)"
            ) from None
        await _run(["apt-get", "update"], folder)
        await _run(["apt-get", "download", package], folder)
    [file] = await asyncio.to_thread(lambda: [*folder.glob("*.deb")])
    await _run(["dpkg-deb", "--extract", str(file), str(folder / "unpacked")], folder)


async def _run(command: Sequence[str], folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _LONGEST)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable(f"`{' '.join(command)}` took longer than {_LONGEST:.0f} s") from None
    if process.returncode:
        raise Unavailable(f"`{' '.join(command)}` failed: {output.decode(errors='replace').strip()[-300:]}")
