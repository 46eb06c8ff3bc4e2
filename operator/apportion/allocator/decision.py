"""Answers of the allocator: a decision, or a refusal with its reasons."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from apportion.allocator.explain.explanation import Explanation
from apportion.allocator.rules.query import Query
from apportion.dra.allocation import Allocation

Verdict: TypeAlias = Literal["none", "node", "budget"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The node and the devices chosen for the claims of a demand."""

    node: str
    allocations: tuple[Allocation, ...]
    """One per claim, in the demand's order; without a timestamp."""
    asked: Query | None = field(default=None, compare=False, repr=False)
    """The query of the claims, for `State.learn`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No node can serve the claims in this state; a later state may."""

    explanation: Explanation
    verdict: Verdict
    """none: proven. node: nothing found, but broken pools were left out. budget: nothing found within the allowed steps."""
    asked: Query | None = field(default=None, compare=False, repr=False)
    """The query of the claims, for `State.learn`."""
