"""`make demo ARGS=--keep` from start to end, and what a person does meanwhile in another shell."""

import asyncio
import signal
import sys

import psutil

from testbed.binaries import Binaries
from testbed.installation import REPOSITORY
from testbed.process import Identity


async def test_the_demo_ends_well_and_leaves_nothing_running(binaries: Binaries) -> None:
    """From nothing to a clean machine: exit status 0, and no process of its own is left. The lines that it prints for another shell work there."""
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "testbed", "demo", "--keep"),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert demo.stdout is not None
    output: list[str] = []
    async for line in demo.stdout:
        output.append(line.decode())
        if "Ctrl-C" in output[-1]:
            break
    exports = "".join(line for line in output if line.startswith("  export "))
    assert exports, "".join(output)
    other = await asyncio.create_subprocess_shell(
        f"set -e\n{exports}\nkubectl get pods -n apportion-examples\napportion why pod apportion-examples/mig",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await other.communicate()
    assert (other.returncode, b"pod apportion-examples/mig is served" in said) == (0, True), said.decode()
    children = psutil.Process(demo.pid).children(recursive=True)
    seen = {each.pid: each.create_time() for each in children}
    demo.send_signal(signal.SIGINT)
    rest, _ = await demo.communicate()
    assert demo.returncode == 0, rest.decode()[-4000:]
    assert "Everything ended as expected" in rest.decode()
    left = [pid for pid, started in seen.items() if Identity(pid, started).running()]
    assert len(seen) > 8
    assert left == []
