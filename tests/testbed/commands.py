"""`python -m testbed` as a process."""

import asyncio
import os
import sys
from pathlib import Path


async def run_testbed(state: Path, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "testbed",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(state), "PYTHONPATH": "operator:.", "COLUMNS": "200"},
    )
    out, problems = await process.communicate()
    return process.returncode or 0, out.decode(), problems.decode()
