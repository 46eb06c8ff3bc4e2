"""Blows: the moments at which an agent is killed.

In: a seed's random numbers. Out: values: a random moment, a step of the agent, or a driver call before or after its effect;
and the play that leads there.
"""

from dataclasses import dataclass
from typing import Final

STEPS: Final = {
    "partition.intent": "cut",
    "hardware.half_made": "cut",
    "hardware.created": "cut",
    "partition.created": "cut",
    "partition.ready": "cut",
    "status.written": "start",
    "claim.preparing": "start",
    "claim.bound": "start",
    "cdi.written": "start",
    "claim.injected": "start",
    "claim.prepared": "start",
    "claim.unpreparing": "finish",
    "cdi.removed": "finish",
    "claim.gone": "finish",
    "partition.releasing": "remove",
    "hardware.half_removed": "remove",
    "hardware.destroyed": "remove",
    "partition.gone": "remove",
}
"""Every boundary that the agent names, with a play that crosses it."""
CALLS: Final = {
    "nvmlDeviceCreateGpuInstanceWithPlacement": "cut",
    "nvmlGpuInstanceCreateComputeInstance": "cut",
    "nvmlComputeInstanceDestroy": "remove",
    "nvmlGpuInstanceDestroy": "remove",
    "nvmlDeviceSetMigMode": "mode",
}
"""Every driver call that changes something."""


@dataclass(frozen=True, slots=True)
class Blow:
    """One way to die."""

    kind: str
    """`moment`, `step` or `call`."""
    where: str = ""
    after: bool = False
    """Of a call: once it took effect."""

    @property
    def leads(self) -> str:
        """The play that leads there, "" when any will do."""
        return {**STEPS, **CALLS}.get(self.where, "")

    def __str__(self) -> str:
        if self.kind == "call":
            return f"{'after' if self.after else 'before'} {self.where}"
        return self.where or self.kind


MOMENT: Final = Blow("moment")


def boundaries(backend: str) -> list[Blow]:
    """Return every boundary that a backend has."""
    skipped = {"hardware.half_removed"} if backend == "simulated" else set()
    steps = [Blow("step", step) for step in STEPS if step not in skipped]
    calls = (
        [Blow("call", call, after) for call in CALLS for after in (False, True)] if backend == "nvml" else []
    )
    return steps + calls
