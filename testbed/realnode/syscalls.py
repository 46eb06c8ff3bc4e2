"""The system calls that Python 3.11 does not offer: namespaces, mounts, the death signal.

In: paths and flags. Out: an OSError that names the call. Imports nothing of ours, as `nodeinit.py` and `nsenter.py` are run by a
fresh interpreter without packages.
"""

import ctypes
import os

CLONE_NEWNS = 0x00020000  # include/uapi/linux/sched.h
CLONE_NEWPID = 0x20000000
BIND = 4096  # include/uapi/linux/mount.h
MOVE = 8192
RECURSIVE = 16384
PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def unshare(flags: int) -> None:
    """Leave the parent's namespaces."""
    _check(_libc.unshare(flags), "unshare")


def join(process: int, namespace: str) -> None:
    """Enter a namespace (`mnt`, `pid`) of a process; `pid` counts for children only."""
    file = os.open(f"/proc/{process}/ns/{namespace}", os.O_RDONLY)
    try:
        _check(_libc.setns(file, 0), f"setns {namespace}")
    finally:
        os.close(file)


def mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    """Mount something, or change how a mount is shared."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, None)
    _check(result, f"mount {kind or source} on {target}")


def die_with_parent(signal: int) -> None:
    """Have the kernel send a signal to this process when its parent dies."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal), "prctl")


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
