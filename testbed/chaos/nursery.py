"""The nursery: a process that has the agent's imports loaded and forks agents. `python -m testbed.chaos.nursery`.

In: one JSON order a line on stdin. Out: one JSON line for each birth and each death. Starting Python costs a second; a fork
costs milliseconds, and its child is a process like any other: it can be killed at any instruction.
"""

import ctypes
import gc
import json
import os
import select
import signal
import sys
import threading
import traceback
from typing import Any

from testbed.chaos.hatchling import be

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_READ = 1 << 16


def main() -> None:
    """Serve orders until stdin ends."""
    if threading.active_count() != 1:
        raise RuntimeError("a process with threads must not fork agents")
    # What is here already is shared with every child; let no collection copy its pages.
    gc.collect()
    gc.freeze()
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    rest = b""
    _say(event="open")
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, _READ)
            _bury()
        if 0 in ready:
            said = os.read(0, _READ)
            if not said:
                return
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                _birth(json.loads(line))


def _birth(order: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        _say(event="born", id=order["id"], pid=pid)
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        be(order)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:  # noqa: BLE001 - whatever it is, this process must end here and not in the nursery's loop
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)


def _bury() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say(event="dead", pid=pid, code=os.waitstatus_to_exitcode(status))


def _say(**words: object) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


if __name__ == "__main__":
    main()
