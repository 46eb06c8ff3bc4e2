"""Run a module of bench/ in a process of its own, as its users do."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return the finished process of `python -m ARGUMENTS...` with these environment variables added."""
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}
    )
