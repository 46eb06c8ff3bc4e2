"""The closest set of devices on one node.

In: a search that succeeded, with its picks. Out: the best picks for the same alternatives: by worst level among the
pairs, then by the sum of the levels, then by the strategy's score. First the values of every rung are tried as a whole,
closest rung first; then a bounded search mends what is left to mend.
"""

from collections.abc import Sequence
from dataclasses import replace

from apportion.allocator.closeness.branchandbound import BranchAndBound
from apportion.allocator.closeness.distances import NodeDistances, distances_on
from apportion.allocator.closeness.scorer import LadderScorer
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.scorer import Score
from apportion.allocator.search.search import OutOfBudget, Pick, Search

STEPS = 2_000
"""Devices tried, and sets begun, for the best set on one node; a node of sixteen NPUs takes some tens."""
FEW = 500
"""Devices tried within one value of a rung."""


def closest(
    search: Search, ranks: Sequence[int], picks: tuple[Pick, ...], scorer: LadderScorer
) -> tuple[tuple[Pick, ...], Score]:
    """Return the best picks, and what the node is compared by among nodes."""
    rows = [[row[rank]] for row, rank in zip(search.options, ranks, strict=True)]
    near = distances_on(search.view, scorer.ladder)
    climb = BranchAndBound(search.view, search.shape, rows, scorer, near, steps=STEPS, prefer=search.prefer)
    climb.learn(picks)
    _by_value(climb, search, rows, near, scorer)
    best, close, score = climb.climb()
    return best, (*close, *score) if scorer.ladder.across else score


def _by_value(
    climb: BranchAndBound,
    search: Search,
    rows: list[list[Candidates]],
    near: NodeDistances,
    scorer: LadderScorer,
) -> None:
    """Teach the climb a set within one value of the closest rung that has one."""
    for level, groups in enumerate(near.groups):
        if level >= climb.worst:
            return
        for devices in groups:
            inside = [_within(row[0], devices) for row in rows]
            if any(option is None for option in inside):
                continue
            try:
                found = Search(
                    search.view,
                    search.shape,
                    [[option] for option in inside if option is not None],
                    scorer,
                    steps=FEW,
                    prefer=search.prefer,
                ).run()
            except (NodeError, OutOfBudget):
                continue
            if found is not None:
                climb.learn(found)
                return


def _within(option: Candidates, devices: int) -> Candidates | None:
    """Return what is left of an option among these devices; None if that is too little."""
    if option.want.admin:
        return option
    mask = option.mask & devices
    if option.everything is not None:
        return option if all(devices >> index & 1 for index in option.everything) else None
    return replace(option, mask=mask, errors={}) if mask.bit_count() >= option.count else None
