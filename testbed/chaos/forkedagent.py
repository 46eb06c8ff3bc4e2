"""One forked agent: the command line `apportion agent ...` with faults injected, or another command. The only chaos module that imports the product.

In: a request of the fork server. Out: nothing; the process is the agent until it ends. The faults are patched in from outside:
`kill_at` ends the process at a named step, `lose` leaves out one kind of journal write (a run must then fail).
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import apportion.agent.agent as agent_module
from apportion.__main__ import main
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.context import Timeouts
from apportion.agent.rows import ClaimRow, ClaimStep, PartitionRow, Step
from apportion.agent.settings import AgentOptions

WRITES: Final = (*Step, "PartitionGone", *ClaimStep, "ClaimGone")
"""The journal writes that can be left out, by the step that they record."""
_TIMEOUTS: Final = Timeouts(room=60.0, idle=60.0, first_retry=0.05, last_retry=0.4, failed=0.5)
"""Shorter pauses than in production."""


def run(request: Mapping[str, Any]) -> None:
    """Run the agent that a request describes: `arguments` of `apportion agent`, `environment`, `options`, `kill_at`, `lose`.

    `command`: what is run in place of `agent`; to it the last three mean nothing.
    """
    os.environ.update(request["environment"])
    _leave_out(request.get("lose", ""))
    _set_options(request.get("options", {}), request.get("kill_at", ""))
    sys.argv = ["apportion", request.get("command", "agent"), *request["arguments"]]
    main()


def _set_options(changes: Mapping[str, Any], kill_at: str) -> None:
    """Set options that the command line does not offer, and the step at which the process kills itself."""
    real = agent_module.run_agent
    paths = {row.name for row in fields(AgentOptions) if "Path" in str(row.type)}
    typed: dict[str, Any] = {name: Path(value) if name in paths else value for name, value in changes.items()}

    def at(step: str) -> None:
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run_agent(options: AgentOptions, stop: Any) -> None:
        await real(replace(options, **typed, timeouts=_TIMEOUTS, at=at), stop)

    agent_module.run_agent = run_agent


def _leave_out(write: str) -> None:
    if write and write not in WRITES:
        raise ValueError(f"no journal write is called {write!r}; known are {', '.join(WRITES)}")
    if write in [*Step]:
        _skip("put_partition", lambda row: isinstance(row, PartitionRow) and row.step == write)
    elif write in [*ClaimStep]:
        for method in ("put_claim", "reserve"):
            _skip(method, lambda row: isinstance(row, ClaimRow) and row.step == write)
        # It would find that the row is missing, and end the prepare.
        Journal.advance_claim = Journal.put_claim  # type: ignore[method-assign]
    elif write:
        _skip("drop_partition" if write == "PartitionGone" else "drop_claim", lambda _: True)


def _skip(method: str, matches: Callable[[object], bool]) -> None:
    real = getattr(Journal, method)

    def written(journal: Journal, first: object, *rest: object) -> None:
        if not matches(first):
            real(journal, first, *rest)

    setattr(Journal, method, written)
