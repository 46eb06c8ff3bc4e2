"""An error that one node's devices cause for a demand: kept as a value, because other nodes may do without it."""

from dataclasses import dataclass
from typing import Literal

from apportion.allocator.rules.query import RequestNames
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """What is wrong, without the names of claim and class."""

    owner: Literal["class", "claim", "request"]
    """Whose text is at fault."""
    reason: str
    field: str = ""


class NodeError(Exception):
    """The search met a flaw that ends it on this node (dra.md 1.5: fatal there for the pod)."""

    def __init__(self, slot: int, alternative: int, flaw: ErrorCause) -> None:
        super().__init__(flaw.reason)
        self.slot = slot
        self.alternative = alternative
        self.flaw = flaw

    def as_broken_input(self, names: RequestNames) -> BrokenInput:
        """Return the error as its user reads it."""
        request = names.request(self.slot, self.alternative)
        match self.flaw.owner:
            case "class":
                title = f"class {request.device_class}"
            case "claim":
                title = f"claim {names.slots[self.slot][0].key}"
            case _:
                title = names.title(self.slot, self.alternative)
        field = f"{request.at}.{self.flaw.field}" if request.at and self.flaw.field else request.at
        return BrokenInput(f"{title}: {self.flaw.reason}", field="" if self.flaw.owner == "class" else field)
