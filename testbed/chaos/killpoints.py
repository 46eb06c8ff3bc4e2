"""Kill points: the moments at which an agent is killed.

In: the name of a backend. Out: values: a random moment, a step of the agent, or a driver call before or after its effect,
each with the scenario that reaches it.
"""

from dataclasses import dataclass
from typing import Final

from testbed.chaos.railscenarios import JOIN, LEAVE
from testbed.chaos.scenarios import END_MPS, MPS, TIME_SLICE

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
"""Every step that the agent names, with a scenario that reaches it."""
SHARING_STEPS: Final = {
    "sharing.intent": MPS,
    "sharing.folders": MPS,
    "sharing.exclusive": MPS,
    "sharing.daemon": MPS,
    "sharing.time_slice": TIME_SLICE,
    "sharing.done": MPS,
    "sharing.daemon_ended": END_MPS,
    "sharing.taken_back": END_MPS,
    "sharing.gone": END_MPS,
}
"""Those of cards that programs of one claim share."""
NETWORK_STEPS: Final = {
    "network.waiting": JOIN,
    "network.moving": JOIN,
    "network.pinned": JOIN,
    "network.marked": JOIN,
    "network.crossed": JOIN,
    "network.set_up": JOIN,
    "network.moved": JOIN,
    "network.shown": JOIN,
    "network.returning": LEAVE,
    "network.altnames_dropped": LEAVE,
    "network.brought": LEAVE,
    "network.restored": LEAVE,
    "network.unpinned": LEAVE,
    "network.gone": LEAVE,
}
"""Those of a NIC's interface, where the node has one."""
CALLS: Final = {
    "nvmlDeviceCreateGpuInstanceWithPlacement": "cut",
    "nvmlGpuInstanceCreateComputeInstance": "cut",
    "nvmlComputeInstanceDestroy": "remove",
    "nvmlGpuInstanceDestroy": "remove",
    "nvmlDeviceSetMigMode": "mode",
}
"""Every driver call that changes something, with a scenario that makes it."""


@dataclass(frozen=True, slots=True)
class KillPoint:
    """One moment at which an agent is killed."""

    kind: str
    """`moment` (random), `step` or `call`."""
    name: str = ""
    """Of the step or call."""
    after: bool = False
    """Of a call: whether it takes effect first."""

    @property
    def scenario(self) -> str:
        """The scenario that reaches it, "" when any will do."""
        return {**STEPS, **SHARING_STEPS, **NETWORK_STEPS, **CALLS}.get(self.name, "")

    def __str__(self) -> str:
        if self.kind == "call":
            return f"{'after' if self.after else 'before'} {self.name}"
        return self.name or self.kind


RANDOM_MOMENT: Final = KillPoint("moment")


def boundaries(backend: str, *, network: bool) -> list[KillPoint]:
    """Return every kill point of a backend, without the random moments."""
    skipped = {"hardware.half_removed"} if backend == "simulated" else set()
    named = [step for step in STEPS if step not in skipped]
    named += [*(SHARING_STEPS if backend == "nvml" else ()), *(NETWORK_STEPS if network else ())]
    steps = [KillPoint("step", step) for step in named]
    calls = (
        [KillPoint("call", call, after) for call in CALLS for after in (False, True)]
        if backend == "nvml"
        else []
    )
    return steps + calls
