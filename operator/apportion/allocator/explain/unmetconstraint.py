"""unmet(): the first constraint (matchAttribute, distinctAttribute) that the free devices of a node cannot satisfy, each looked at alone.

In: a node's view, a query whose requests could each be served there. Out: the constraint, with how many devices agree or differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.allocator.explain.explanation import LISTED, ConstraintReport
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import NamedQuery, NodeError
from apportion.allocator.search.candidates import Candidates, candidate_rows
from apportion.allocator.search.constraints import ConstraintState
from apportion.allocator.state import State


@dataclass(frozen=True, slots=True)
class UnmetConstraint:
    """A constraint, by its number in the query, and the first slot that it covers."""

    number: int
    slot: int
    report: ConstraintReport


def unmet(state: State, named: NamedQuery, view: NodeView) -> UnmetConstraint | None:
    """Return the first constraint that cannot be satisfied; None: each can, or a selector of the query cannot be evaluated there."""
    try:
        rows = candidate_rows(view, named.query, state.selectors)
    except NodeError:
        return None
    for number, constraint in enumerate(named.query.constraints):
        covered = [
            (slot, row)
            for slot, row in enumerate(rows)
            if all(number in candidates.alternative.constraints for candidates in row)
        ]
        if not covered:
            continue
        asked = [candidates for _, row in covered for candidates in row]
        free = _open(view, asked)
        wanted = sum([min(candidates.count for candidates in row) for _, row in covered])
        constraints = ConstraintState(constraint, view)
        values = [
            (str(atom[1]), (devices & free).bit_count()) for atom, devices in constraints.values.items()
        ]
        values = sorted((value for value in values if value[1]), key=lambda value: -value[1])
        if constraint.distinct:
            enough = len(values) >= wanted
        else:
            lists = [row for _, row in covered]
            enough = any(
                all(any(_serve(view, [each], devices, each.count) for each in row) for row in lists)
                and _serve(view, asked, devices, wanted)
                for devices in constraints.values.values()
            )
        if not enough:
            report = ConstraintReport(
                named.names.slots[covered[0][0]][0].key,
                constraint.attribute,
                constraint.distinct,
                wanted,
                tuple(values[:LISTED]),
                without=(free & ~constraints.mask).bit_count(),
                different=len(values),
            )
            return UnmetConstraint(number, covered[0][0], report)
    return None


def _serve(view: NodeView, asked: Sequence[Candidates], devices: int, wanted: int) -> bool:
    """Say whether these devices are enough in number: one that is shared, or only looked at, may serve several times."""
    able = _open(view, asked) & devices
    several = able & view.shareable or any(each.alternative.admin for each in asked)
    return able.bit_count() >= (1 if several else wanted)


def _open(view: NodeView, asked: Sequence[Candidates]) -> int:
    """Return the devices that some of these requests may have now."""
    found = 0
    for each in asked:
        found |= each.mask if each.alternative.admin else each.mask & view.fit
    return found
