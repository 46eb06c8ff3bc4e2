"""Memory: how much the page may take, so that the operator in the same container never lacks any.

In: a number of bytes. Out: a process that the kernel gives no more, and that it kills first where the machine has none left.
"""

import resource
from contextlib import suppress
from pathlib import Path

from apportion.errors import ApportionError

SHARE = 0.5
"""Of the container's memory, unless an option says otherwise: the operator keeps the same cluster, and needs the rest."""
SHORT = 3
"""Exit status of a page that does not fit."""
_CGROUPS = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Where a container reads its own limit: cgroup v2, v1."""
_NONE = 2**60
"""Bytes; v1 writes a number beyond all memory where there is no limit."""
_PROCESS = Path("/proc/self")
_FIRST = "1000"
"""The most that `oom_score_adj` can be (proc_pid_oom_score_adj(5))."""
_ENOUGH = 0.9
"""Of the limit: beyond it the page ends by itself. What fails to get memory ends in many ways, and few of them say why."""


class ShortOfMemory(ApportionError):  # noqa: N818 - a state, like those of `apportion.errors`
    """The cluster does not fit into the memory that the page may take."""


def container_limit(cgroups: Path = _CGROUPS) -> int | None:
    """Return the memory in bytes that this container may take; None: no limit is known."""
    for name in _LIMITS:
        try:
            text = (cgroups / name).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < _NONE else None
    return None


def goes_first() -> None:
    """Let the kernel kill this process before others when memory runs out."""
    with suppress(OSError):
        (_PROCESS / "oom_score_adj").write_text(_FIRST)


class MemoryLimit:
    """The memory of this process."""

    def __init__(self, most: int | None) -> None:
        """`most`: bytes; None: there is no limit."""
        self._most = most

    def set(self) -> None:
        """Let the kernel refuse what is beyond it, for good. Raises ShortOfMemory where too much is taken already."""
        self.check()
        if self._most is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (self._most, self._most))

    def check(self) -> None:
        """Raise ShortOfMemory when nearly all of it is taken."""
        if self._most is not None and _taken() > _ENOUGH * self._most:
            raise self.short()

    def short(self) -> ShortOfMemory:
        """Return what to raise where memory was refused."""
        most = "what there is" if self._most is None else f"{self._most >> 20} MiB"
        return ShortOfMemory(
            f"the page does not fit into {most} of memory (--web-memory; else half of the container's limit): raise the container's"
            " limit, or run `apportion web` elsewhere"
        )


def _taken() -> int:
    """Return what RLIMIT_DATA counts (VmData, proc_pid_status(5)), in bytes; 0 where no such thing is known."""
    with suppress(OSError):
        for line in (_PROCESS / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "VmData":
                return int(value.split()[0]) << 10
    return 0
