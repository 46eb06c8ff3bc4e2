"""NodeError: an error that a demand meets on one node. Kept as that node's outcome, as other nodes may have none."""

from dataclasses import dataclass
from typing import Literal

from apportion.allocator.rules.query import RequestNames
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """The error without the names of claim and class, so that claims with equal queries share it."""

    owner: Literal["class", "claim", "request"]
    """Object whose text causes the error."""
    reason: str
    field: str = ""


class NodeError(Exception):
    """An error that ends the search on this node. Upstream fails the whole pod on it (dra.md 1.5)."""

    def __init__(self, slot: int, alternative: int, cause: ErrorCause) -> None:
        super().__init__(cause.reason)
        self.slot = slot
        self.alternative = alternative
        self.cause = cause

    def as_broken_input(self, names: RequestNames) -> BrokenInput:
        """Return the error with the names of claim, request or class, for the user."""
        request = names.request(self.slot, self.alternative)
        match self.cause.owner:
            case "class":
                title = f"class {request.device_class}"
            case "claim":
                title = f"claim {names.slots[self.slot][0].key}"
            case _:
                title = names.title(self.slot, self.alternative)
        field = f"{request.at}.{self.cause.field}" if request.at and self.cause.field else request.at
        return BrokenInput(
            f"{title}: {self.cause.reason}", field="" if self.cause.owner == "class" else field
        )
