"""How one look at a partition ended: settled, waiting, or failed, with a reason that its owner can act on.

In: nothing. Out: a value that the report turns into phase and conditions.
"""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phases of a Partition's status."""

    PENDING = "Pending"
    CREATING = "Creating"
    READY = "Ready"
    IDLE = "Idle"
    RELEASING = "Releasing"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a partition stands after a look at it."""

    phase: Phase
    reason: str
    """CamelCase, for the condition."""
    message: str = ""
    again: bool = False
    """Whether to look again without being asked."""

    @property
    def ready(self) -> bool:
        """Whether the partition exists and is fit for use."""
        return self.phase in {Phase.READY, Phase.IDLE}
