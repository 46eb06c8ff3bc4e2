"""The fork server: a process that has the agent's imports loaded and forks agents. `python -m testbed.chaos.forkserver MODULE`.

In: one JSON request per line on stdin; a module whose `run` takes one and is the agent. Out: one JSON line for each start and each
exit of an agent. Starting Python takes a second, a fork takes milliseconds; the child is an ordinary process and can be killed at
any instruction. It writes to the request's `log`.
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from testbed.realnode.syscalls import die_with_parent

_READ = 1 << 16
_LATE = ("pyroute2", "typer._adapters", "importlib.readers")
"""What an agent imports when it first needs it: in each child that would take longer than all else until it serves."""
Run = Callable[[dict[str, Any]], None]


def main() -> None:
    """Serve requests until stdin ends."""
    run: Run = importlib.import_module(sys.argv[1]).run
    for module in _LATE:
        importlib.import_module(module)
    if threading.active_count() != 1:
        raise RuntimeError("a process with threads must not fork agents")
    # A collection in a child would copy the pages that it shares with this process.
    gc.collect()
    gc.freeze()
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    rest = b""
    _report(event="ready")
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, _READ)
            _reap()
        if 0 in ready:
            received = os.read(0, _READ)
            if not received:
                return
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                _fork(json.loads(line), run)


def _fork(request: dict[str, Any], run: Run) -> None:
    pid = os.fork()
    if pid:
        _report(event="started", id=request["id"], pid=pid)
        return
    try:
        die_with_parent(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _write_to(request["log"])
        run(request)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:  # noqa: BLE001 - whatever it is, this process must end here and not in the server's loop
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)


def _write_to(log: str) -> None:
    opened = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _report(event="exited", pid=pid, code=os.waitstatus_to_exitcode(status))


def _report(**event: object) -> None:
    os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    main()
