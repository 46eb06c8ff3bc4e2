"""Debian's Chromium without a window, and the accessibility checker that runs in it.

In: package registries. Out: a running browser; the text of axe-core. Unavailable says why there is none.
"""

import asyncio
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import platformdirs
from playwright.async_api import Browser, async_playwright

from testbed.binaries.debian import libraries, unpacked
from testbed.errors import Unavailable

_PACKAGE = "chromium-headless-shell"
_AXE = "4.14.1"
_AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Run a browser. Raises Unavailable."""
    place = await unpacked(_PACKAGE)
    program = place / "usr/lib/chromium" / _PACKAGE
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, env={**os.environ, "LD_LIBRARY_PATH": libraries(place)}
        )
        try:
            yield browser
        finally:
            await browser.close()


async def axe() -> str:
    """Return axe-core, the accessibility checker, as one script. Raises Unavailable."""
    place = platformdirs.user_cache_path("apportion") / "testbed" / f"axe-{_AXE}.js"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            script = await _fetched(Path(folder))
            if hashlib.sha256(script).hexdigest() != _AXE_SHA256:
                raise Unavailable(f"axe-core {_AXE} is not what it was")
            (Path(folder) / "axe.js").write_bytes(script)
            (Path(folder) / "axe.js").rename(place)
    return place.read_text(encoding="utf-8")


async def _fetched(folder: Path) -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(f"axe-core {_AXE} is a package of npm, which is not there")
    process = await asyncio.create_subprocess_exec(
        npm, "pack", f"axe-core@{_AXE}", "--silent", cwd=folder, stdout=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        raise Unavailable(f"npm pack axe-core@{_AXE} failed")
    with tarfile.open(folder / f"axe-core-{_AXE}.tgz") as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found is not None
        return found.read()
