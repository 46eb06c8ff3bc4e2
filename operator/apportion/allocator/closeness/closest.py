"""The closest set of devices on one node.

In: a search that succeeded, with its picks. Out: the best picks for the same alternatives: by worst level among the
pairs, then by the sum of the levels, then by the strategy's score. First the values of every rung are tried as a whole,
closest rung first; then a bounded search mends what is left to mend.
"""

from collections.abc import Sequence
from dataclasses import replace

from apportion.allocator.closeness.branchandbound import BranchAndBound
from apportion.allocator.closeness.cost import Cost
from apportion.allocator.closeness.distances import NodeDistances, distances_on
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Score
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import OutOfBudget, Pick, Search

STEPS = 2_000
"""Devices tried, and sets begun, for the best set on one node; a node of sixteen NPUs takes some tens."""
FEW = 500
"""Devices tried within one value of a rung."""


def closest(
    search: Search, ranks: Sequence[int], picks: tuple[Pick, ...], strategy: Scorer, ladder: Ladder
) -> tuple[tuple[Pick, ...], Cost, Score]:
    """Return the best picks, how close they are, and the strategy's score."""
    rows = [[row[rank]] for row, rank in zip(search.candidate_rows, ranks, strict=True)]
    distances = distances_on(search.view, ladder)
    best = BranchAndBound(search, rows, strategy, ladder, distances, steps=STEPS)
    best.learn(picks)
    _by_value(best, search, rows, distances, strategy)
    return best.climb()


def _by_value(
    best: BranchAndBound,
    search: Search,
    rows: list[list[Candidates]],
    distances: NodeDistances,
    strategy: Scorer,
) -> None:
    """Teach the climb a set within one value of the closest rung that has one."""
    for level, groups in enumerate(distances.groups):
        if level >= best.worst:
            return
        for devices in groups:
            inside = [_within(row[0], devices) for row in rows]
            if any(candidates is None for candidates in inside):
                continue
            try:
                found = Search(
                    search.view,
                    search.query,
                    [[candidates] for candidates in inside if candidates is not None],
                    strategy,
                    steps=FEW,
                    prefer=search.prefer,
                ).run()
            except (NodeError, OutOfBudget):
                continue
            if found is not None:
                best.learn(found)
                return


def _within(candidates: Candidates, devices: int) -> Candidates | None:
    """Return what is left of an option among these devices; None if that is too little."""
    if candidates.alternative.admin:
        return candidates
    mask = candidates.mask & devices
    if candidates.everything is not None:
        return candidates if all(devices >> index & 1 for index in candidates.everything) else None
    return replace(candidates, mask=mask, errors={}) if mask.bit_count() >= candidates.count else None
