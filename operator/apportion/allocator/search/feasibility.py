"""Counting before searching: demands that cannot be met because there is too little, however it is dealt out.

In: what the remaining slots ask, each with the devices open to it. Out: False only where no assignment exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.constraints import ConstraintState


@dataclass(slots=True)
class CountedRequest:
    """So many devices out of these."""

    mask: int
    count: int
    constraints: frozenset[int]
    """Constraints that cover it whichever alternative is chosen."""
    loose: bool
    """Its devices may serve other asks too (shares, admin access)."""

    @classmethod
    def of(
        cls, mask: int, count: int, candidate_rows: Sequence[Candidates], view: NodeView
    ) -> "CountedRequest":
        """Make an ask of a slot's alternatives."""
        constraints = frozenset(candidate_rows[0].alternative.constraints)
        for candidates in candidate_rows[1:]:
            constraints &= frozenset(candidates.alternative.constraints)
        loose = bool(mask & view.shareable) or any(
            candidates.alternative.admin for candidates in candidate_rows
        )
        return cls(mask, count, constraints, loose)


def possible(
    asks: Sequence[CountedRequest],
    constraints: Sequence[ConstraintState],
    view: NodeView,
    states: Sequence[GroupState],
    *,
    narrow: bool,
) -> bool:
    """Say whether the counts leave hope. `narrow`: let match constraints forget values that cannot serve."""
    if not _enough(asks, view, states):
        return False
    for number, constraint in enumerate(constraints):
        covered = [ask for ask in asks if number in ask.constraints]
        if not covered:
            continue
        if constraint.distinct:
            if not _distinct(covered, constraint):
                return False
            continue
        if constraint.chosen and len(constraint.live) <= 1:
            continue
        hopeful = {
            atom
            for atom in constraint.live
            if _enough(_restricted(covered, constraint.values[atom]), view, states)
        }
        if not hopeful:
            return False
        if narrow and len(hopeful) < len(constraint.live):
            constraint.narrow(hopeful)
    return True


def _restricted(asks: Sequence[CountedRequest], devices: int) -> list[CountedRequest]:
    return [CountedRequest(ask.mask & devices, ask.count, ask.constraints, ask.loose) for ask in asks]


def _distinct(asks: Sequence[CountedRequest], constraint: ConstraintState) -> bool:
    """Every device takes at least one value for itself."""
    union = 0
    for ask in asks:
        union |= ask.mask
    union &= constraint.mask
    return sum(ask.count for ask in asks) <= sum(
        1 for devices in constraint.values.values() if devices & union
    )


def _enough(asks: Sequence[CountedRequest], view: NodeView, states: Sequence[GroupState]) -> bool:
    strict = []
    for ask in asks:
        if ask.mask.bit_count() < ask.count:
            return False
        if not ask.loose:
            strict.append(ask)
    if not strict:
        return True
    union = 0
    for ask in strict:
        union |= ask.mask
    for mask in {union, *(ask.mask for ask in strict)}:
        wanted = sum(ask.count for ask in strict if not ask.mask & ~mask)
        if wanted > _room(mask, view, states):
            return False
    return True


def _room(mask: int, view: NodeView, states: Sequence[GroupState]) -> int:
    """Return how many of the devices can be taken together at most."""
    room = (mask & view.plain).bit_count()
    for group, state in zip(view.groups, states, strict=True):
        inside = mask & group.mask
        if inside:
            room += state.most(group.gather(inside))
    return room
