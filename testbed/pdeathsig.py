"""Become a program that dies with its parent: `python pdeathsig.py PARENT PROGRAM ARGUMENT...`.

A fresh interpreter runs this file: setting the signal between fork and exec would need Python code after a fork of the parent,
which is unsafe while gRPC's threads run there.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def main() -> None:
    """Ask the kernel for SIGKILL when the parent dies, make sure that it lives, and become the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("the parent died first")
    try:
        os.execvp(command[0], command)  # noqa: S606 - the testbed's own arguments
    except OSError as error:
        sys.exit(f"{command[0]} does not start: {error.strerror}")


if __name__ == "__main__":
    main()
