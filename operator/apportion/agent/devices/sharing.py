"""How the programs of a claim share a card: time slices, and control daemons of NVIDIA's Multi-Process Service (MPS).

In: values. Out: what a backend does with them. A backend whose cards can be set up so has `sharing`; like the backend itself it
remembers nothing: driver and host are the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol, runtime_checkable


class TimeSlice(IntEnum):
    """How long a program computes before the next one has its turn, in the driver's steps.

    The numbers are those of `nvidia-smi compute-policy --set-timeslice` (dra-driver-nvidia-gpu 95932046, sharing.go `Int`).
    """

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


@dataclass(frozen=True, slots=True)
class ControlDaemon:
    """An MPS control daemon: one for each set of devices, with the limits of every program that it serves."""

    name: str
    """Letters and digits. No other daemon of the node has it; the same devices give the same name."""
    folder: Path
    """Holds its folders `pipe`, `shm` and `log`; host and agent see it under one path."""
    devices: tuple[str, ...]
    """UUIDs of GPUs, or of one MIG device."""
    percentage: int | None = None
    """Most threads of a device that one program gets, in percent; None: all."""
    memory: tuple[tuple[str, int], ...] = ()
    """Most memory of a device that one program gets, in MiB, by UUID; a device that is not named has no limit."""
    multi_user: bool = False
    """Whether programs of several users run at the same time (GPUs from Volta on)."""

    @property
    def commands(self) -> tuple[str, ...]:
        """What the daemon has to read: its limits, and questions about them (NVIDIA's MPS documentation, appendix).

        Devices are named by UUID, as dra-driver-nvidia-gpu does (templates/mps-control-daemon.tmpl.yaml).
        """
        lines: list[str] = []
        if self.percentage is not None:
            lines += [
                f"set_default_active_thread_percentage {self.percentage}",
                "get_default_active_thread_percentage",
            ]
        for uuid, mib in self.memory:
            lines += [
                f"set_default_device_pinned_mem_limit {uuid} {mib}M",
                f"get_default_device_pinned_mem_limit {uuid}",
            ]
        return tuple(lines)


class Sharing(Protocol):
    """Sets cards of one backend up for programs that share them; every call may be repeated."""

    def set_time_slice(self, card: str, time_slice: TimeSlice) -> None:
        """Set the time slice of a whole card. Raises Unsupported with the reason, HardwareError."""

    def set_exclusive(self, card: str, *, exclusive: bool) -> None:
        """Let one process at a time have contexts on a whole card (the MPS server), or any. Raises HardwareError."""

    def start_daemon(self, daemon: ControlDaemon, seconds: float) -> None:
        """Have a daemon run with its limits, outlasting this process; one that runs with them already is fine.

        Its folders are there. Raises Unsupported where the host cannot run it, NotReady when it is not ready after `seconds`.
        """

    def stop_daemon(self, name: str) -> None:
        """End a daemon with all that it started; none of that name is fine. Raises NotReady while it runs."""

    def has_limits(self, daemon: ControlDaemon) -> bool:
        """Say whether a daemon that runs has its limits: somebody may have started it anew. Raises NotReady when that is not known."""

    def daemons(self) -> Mapping[str, bool]:
        """Return the daemons that are there by name, and whether each is ready."""


@runtime_checkable
class Sharable(Protocol):
    """A backend whose cards can be set up."""

    @property
    def sharing(self) -> Sharing:
        """What does it."""
