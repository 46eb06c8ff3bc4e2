"""An agent that ends itself with SIGKILL at one step; what a fork server runs (`testbed.chaos.forkserver`).

In: options (paths as text), the name of the step, the environment. The process is gone in the middle of that step, as after a
power cut: no clean-up, no flush. SIGTERM ends it as it ends the program.
"""

import asyncio
import os
import signal
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apportion.agent.agent import run_agent
from apportion.agent.lifecycle.context import Timeouts
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


def run(request: Mapping[str, Any]) -> None:
    """Be the agent, in this environment and no other; an error ends it with 1, as it ends the interpreter."""
    os.environ.clear()
    os.environ.update(request["environment"])
    code = 0
    try:
        asyncio.run(_run(_options(request["options"], request["kill_at"])))
    except Exception:  # noqa: BLE001 - as the interpreter does with whatever is left
        traceback.print_exc()
        code = 1
    # An interpreter ends when its threads have; a forked child would not wait for them (multiprocessing does the same).
    threading._shutdown()  # type: ignore[attr-defined]
    raise SystemExit(code)


def _options(raw: Mapping[str, Any], step: str) -> AgentOptions:
    """Read the options, with the crash in them."""

    def at(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    if raw.get("host_root") and (Path(raw["host_root"]) / FILE).exists():
        FakeFunctions(Path(raw["host_root"]) / FILE).install()
    made = {key: Path(value) if key in PATHS else value for key, value in raw.items()}
    made["timeouts"] = Timeouts(**made.get("timeouts", {}))
    return AgentOptions(**made, at=at)


async def _run(given: AgentOptions) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_agent(given, stop)
