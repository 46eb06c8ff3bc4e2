"""A device that the scenarios of a chaos node have in use or keep warm."""

from dataclasses import dataclass
from typing import Self

from testbed.api import Json
from testbed.chaos.fakehardware import Placement


@dataclass(slots=True, eq=False)
class TrackedDevice:
    """A device in use or kept warm: a partition, or a whole card (no placement)."""

    card: str
    placement: Placement | None
    claim: Json | None = None
    reserved: bool = False
    """Whether a scenario of this round uses it."""
    gibibytes: int = 0
    """Of the memory of a whole card that other claims use, too; 0: it is for one claim."""
    sharing: str = ""
    """Strategy by which its claim shares it: "MPS", "TimeSlicing"."""
    opened: bool = False
    """Whether a program in the container opens it, so that the driver reports it as in use."""

    @property
    def name(self) -> str:
        """The device's name."""
        return self.placement.device if self.placement is not None else self.card

    def reserve(self) -> Self:
        """Reserve it for a scenario."""
        self.reserved = True
        return self
