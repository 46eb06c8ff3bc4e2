"""What the allocator answers: a decision, or a refusal with its reasons."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from apportion.allocator.explanation import Explanation
from apportion.allocator.shape import Meaning
from apportion.dra.allocation import Allocation

Verdict: TypeAlias = Literal["none", "node", "budget"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the claims go and what they get."""

    node: str
    allocations: tuple[Allocation, ...]
    """One per claim, in the demand's order; without a timestamp."""
    asked: Meaning | None = field(default=None, compare=False, repr=False)
    """What the claims asked for, in the form that `State.learn` takes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No node can serve the claims as things stand; a later state may."""

    explanation: Explanation
    verdict: Verdict
    """none: proven. node: nothing found, and broken pools were left out. budget: nothing found in the steps allowed."""
    asked: Meaning | None = field(default=None, compare=False, repr=False)
    """What the claims asked for, in the form that `State.learn` takes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a pool, which is left out until its driver mends it."""

    object: str
    """The pool, and the slice where one is to blame."""
    field: str
    reason: str
