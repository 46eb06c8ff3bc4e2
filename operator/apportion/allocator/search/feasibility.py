"""Feasibility: comparison of counts that proves without a search that the remaining slots cannot be served.

In: the remaining slots, each with a count and the devices that it may take. Out: False only if no assignment exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.constraints import ConstraintState


@dataclass(slots=True)
class CountedRequest:
    """A slot that needs `count` devices of a mask."""

    mask: int
    count: int
    constraints: frozenset[int]
    """Constraints that cover all its alternatives."""
    shared: bool
    """Whether its devices may serve other slots too (shares, admin access)."""

    @classmethod
    def of(
        cls, mask: int, count: int, candidate_rows: Sequence[Candidates], view: NodeView
    ) -> "CountedRequest":
        """Return the counted request of a slot's alternatives."""
        constraints = frozenset(candidate_rows[0].alternative.constraints)
        for candidates in candidate_rows[1:]:
            constraints &= frozenset(candidates.alternative.constraints)
        shared = bool(mask & view.shareable) or any(
            candidates.alternative.admin for candidates in candidate_rows
        )
        return cls(mask, count, constraints, shared)


def possible(
    requests: Sequence[CountedRequest],
    constraints: Sequence[ConstraintState],
    view: NodeView,
    states: Sequence[GroupState],
    *,
    narrow: bool,
) -> bool:
    """Say whether the counts allow a solution. `narrow`: remove values from match constraints that allow none."""
    if not _enough(requests, view, states):
        return False
    for number, constraint in enumerate(constraints):
        covered = [request for request in requests if number in request.constraints]
        if not covered:
            continue
        if constraint.distinct:
            if not _distinct(covered, constraint):
                return False
            continue
        if constraint.chosen and len(constraint.live) <= 1:
            continue
        live = {
            value
            for value in constraint.live
            if _enough(_restricted(covered, constraint.values[value]), view, states)
        }
        if not live:
            return False
        if narrow and len(live) < len(constraint.live):
            constraint.narrow(live)
    return True


def _restricted(requests: Sequence[CountedRequest], devices: int) -> list[CountedRequest]:
    return [
        CountedRequest(request.mask & devices, request.count, request.constraints, request.shared)
        for request in requests
    ]


def _distinct(requests: Sequence[CountedRequest], constraint: ConstraintState) -> bool:
    """Say whether there are as many values as devices, because each device needs a value of its own."""
    union = 0
    for request in requests:
        union |= request.mask
    union &= constraint.mask
    return sum(request.count for request in requests) <= sum(
        1 for devices in constraint.values.values() if devices & union
    )


def _enough(requests: Sequence[CountedRequest], view: NodeView, states: Sequence[GroupState]) -> bool:
    exclusive = []
    for request in requests:
        if request.mask.bit_count() < request.count:
            return False
        if not request.shared:
            exclusive.append(request)
    if not exclusive:
        return True
    union = 0
    for request in exclusive:
        union |= request.mask
    for mask in {union, *(request.mask for request in exclusive)}:
        needed = sum(request.count for request in exclusive if not request.mask & ~mask)
        if needed > _room(mask, view, states):
            return False
    return True


def _room(mask: int, view: NodeView, states: Sequence[GroupState]) -> int:
    """Return an upper bound of how many devices of the mask can be taken together."""
    room = (mask & view.plain).bit_count()
    for group, state in zip(view.groups, states, strict=True):
        inside = mask & group.mask
        if inside:
            room += state.most(group.gather(inside))
    return room
