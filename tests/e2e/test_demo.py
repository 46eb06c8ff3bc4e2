"""`make demo` from start to end."""

import asyncio
import sys
from contextlib import suppress

import psutil

from testbed.binaries import Binaries
from testbed.installation import REPOSITORY
from testbed.process import Identity


async def test_the_demo_ends_well_and_leaves_nothing_running(binaries: Binaries) -> None:
    """From nothing to a clean machine: exit status 0, and no process of its own is left."""
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "testbed", "demo"),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    seen: dict[int, float] = {}
    reading = asyncio.ensure_future(demo.communicate())
    while not reading.done():
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(demo.pid).children(recursive=True):
                seen[child.pid] = child.create_time()
        await asyncio.sleep(0.5)
    output = (await reading)[0].decode()
    assert demo.returncode == 0, output[-4000:]
    assert "Everything ended as expected" in output
    left = [pid for pid, started in seen.items() if Identity(pid, started).running()]
    assert len(seen) > 8
    assert left == []
