"""What processes have spent: CPU time and memory, their children included, as the kernel counts them.

In: process ids by name. Out: seconds and bytes by name.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MIB = 1 << 20
_QUIET = 0.1
"""Cores that programs may use together and count as idle."""
_QUIET_SECONDS = 1.0
_PROCESS_CPU = 2
"""Linux: CPUCLOCK_SCHED of a process's clocks (include/linux/posix-timers.h)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one program has spent since it was started."""

    cpu: float
    """Seconds, user and system, of all threads and of all children that live or were waited for."""
    resident: int
    """Bytes now."""
    peak: int
    """Bytes at most (`VmHWM`), the sum over the processes that live now."""

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Read a process and its children. Zeros when it is gone."""
        cpu, resident, peak = 0.0, 0, 0
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return cls(0.0, 0, 0)
        for each in family:
            try:
                times = each.cpu_times()
                spent = _spent(each.pid)
                resident += each.memory_info().rss
                peak += _peak(each.pid)
            except (psutil.NoSuchProcess, OSError):
                continue
            cpu += spent + times.children_user + times.children_system
        return cls(cpu, resident, peak)


def own_usage() -> Usage:
    """Read this process alone: the programs that it measures are its children."""
    process = psutil.Process()
    times = process.cpu_times()
    return Usage(times.user + times.system, process.memory_info().rss, _peak(process.pid))


def usages(pids: Mapping[str, int]) -> dict[str, Usage]:
    """Read several programs."""
    return {name: Usage.of(pid) for name, pid in pids.items()}


async def settled(pids: Mapping[str, int], within: float = 120.0) -> None:
    """Wait until processes use next to no CPU; returns in any case after `within` seconds."""
    end = time.monotonic() + within
    before, then = usages(pids), time.monotonic()
    while then < end:
        await asyncio.sleep(_QUIET_SECONDS)
        after, now = usages(pids), time.monotonic()
        spent = sum(after[name].cpu - before[name].cpu for name in pids)
        if spent < _QUIET * (now - then):
            return
        before, then = after, now


def load() -> float:
    """Return the machine's load average of the last minute, to judge by whether a run was disturbed."""
    return os.getloadavg()[0]


def _spent(pid: int) -> float:
    """Return the CPU seconds of all threads of a process, in nanoseconds' steps: /proc counts in 10 ms, more than a few events cost.

    The clock's number is what clock_getcpuclockid(3) returns. Raises OSError when the process is gone.
    """
    return time.clock_gettime(~pid << 3 | _PROCESS_CPU)


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
