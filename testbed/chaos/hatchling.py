"""One forked agent: the command line `apportion agent ...`, with seams for the killer. The only file here that knows the product.

In: an order. Out: never; the process is the agent until it dies. The seams are put around the product from outside:
`kill_at` ends the process at a named step, `lose` lets one journal write never happen (a run must notice that).
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
"""The journal writes that can be lost, by the step that they note."""
_PATIENCE: Final = Timeouts(room=60.0, idle=60.0, first_retry=0.05, last_retry=0.4, failed=0.5)
"""Shorter pauses than in production; what is done between them is the same."""


def be(order: Mapping[str, Any]) -> None:
    """Be the agent of this order."""
    os.environ.update(order["environment"])
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _lose(order.get("lose", ""))
    _change(order.get("options", {}), order.get("kill_at", ""))
    sys.argv = ["apportion", "agent", *order["arguments"]]
    main()


def _change(changes: Mapping[str, Any], kill_at: str) -> None:
    """Set options that the command line does not offer, and the seam."""
    real = agent_module.run_agent
    paths = {row.name for row in fields(AgentOptions) if "Path" in str(row.type)}
    typed: dict[str, Any] = {name: Path(value) if name in paths else value for name, value in changes.items()}

    def at(step: str) -> None:
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run_agent(options: AgentOptions, stop: Any) -> None:
        await real(replace(options, **typed, timeouts=_PATIENCE, at=at), stop)

    agent_module.run_agent = run_agent


def _lose(write: str) -> None:
    if write and write not in WRITES:
        raise ValueError(f"no journal write is called {write!r}; known are {', '.join(WRITES)}")
    if write in [*Step]:
        _skip("put_partition", lambda row: isinstance(row, PartitionRow) and row.step == write)
    elif write in [*ClaimStep]:
        for method in ("put_claim", "reserve"):
            _skip(method, lambda row: isinstance(row, ClaimRow) and row.step == write)
    elif write:
        _skip("drop_partition" if write == "PartitionGone" else "drop_claim", lambda _: True)


def _skip(method: str, concerned: Callable[[object], bool]) -> None:
    real = getattr(Journal, method)

    def written(journal: Journal, first: object, *rest: object) -> None:
        if not concerned(first):
            real(journal, first, *rest)

    setattr(Journal, method, written)
