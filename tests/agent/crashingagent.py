"""An agent that ends itself with SIGKILL at one step: `python -m tests.agent.crashingagent OPTIONS STEP`.

In: options as JSON (paths as text), the name of the step. The process is gone in the middle of that step, as after a
power cut: no clean-up, no flush. SIGTERM ends it as it ends the program.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from apportion.agent.agent import run_agent
from apportion.agent.settings import AgentOptions
from testbed.fakes.virtualfunctions import FILE, FakeFunctions

PATHS = (
    "simulation",
    "host_root",
    "generic_devices",
    "plugins_dir",
    "registry_dir",
    "cdi_dir",
    "state_dir",
    "run_dir",
    "nri_socket",
    "kubeconfig",
    "boot_id",
)


def options(text: str, step: str) -> AgentOptions:
    """Read the options, with the crash in them."""

    def at(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    raw: dict[str, Any] = json.loads(text)
    if raw.get("host_root") and (Path(raw["host_root"]) / FILE).exists():
        FakeFunctions(Path(raw["host_root"]) / FILE).install()
    return AgentOptions(**{key: Path(value) if key in PATHS else value for key, value in raw.items()}, at=at)


async def _run(given: AgentOptions) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_agent(given, stop)


if __name__ == "__main__":
    asyncio.run(_run(options(sys.argv[1], sys.argv[2])))
