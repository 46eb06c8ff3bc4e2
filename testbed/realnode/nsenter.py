"""Run a program inside of a node: `python nsenter.py INIT PROGRAM ARGUMENT...`, where INIT is the id of its process 1.

This process stays outside: it waits for the program, ends as the program ends, and the program dies with it.
Signals go to the process group, so the program gets them itself.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import syscalls  # type: ignore[import-not-found]


def main() -> None:
    """Join the node's namespaces, start the program, wait, and end as it ended."""
    init, *command = sys.argv[1:]
    syscalls.join(int(init), "pid")
    syscalls.join(int(init), "mnt")
    child = os.fork()
    if child == 0:
        syscalls.die_with_parent(signal.SIGKILL)
        try:
            os.execvp(command[0], command)  # noqa: S606 - the testbed's own arguments
        except OSError as error:
            sys.exit(f"{command[0]} does not start: {error.strerror}")
    for word in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(word, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(str(error))
