"""What the allocator answers: a decision, or a refusal with its reasons."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from apportion.allocator.explain.explanation import Explanation
from apportion.allocator.rules.query import Query
from apportion.dra.allocation import Allocation

Verdict: TypeAlias = Literal["none", "node", "budget"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the claims go and what they get."""

    node: str
    allocations: tuple[Allocation, ...]
    """One per claim, in the demand's order; without a timestamp."""
    asked: Query | None = field(default=None, compare=False, repr=False)
    """What the claims asked for, in the form that `State.learn` takes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No node can serve the claims as things stand; a later state may."""

    explanation: Explanation
    verdict: Verdict
    """none: proven. node: nothing found, and broken pools were left out. budget: nothing found in the steps allowed."""
    asked: Query | None = field(default=None, compare=False, repr=False)
    """What the claims asked for, in the form that `State.learn` takes."""
