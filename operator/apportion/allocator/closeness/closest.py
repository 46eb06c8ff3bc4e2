"""The closest set of devices on one node; LadderScorer: a strategy with a ladder.

In: a search that found a solution, with its picks. Out: the best picks for the same alternatives: by closeness cost (`cost`),
then by the strategy's score. First the devices of each value of a rung are searched alone, closest rung first; then branch
and bound improves the best set found. Rankings only use the scorer, so they do not depend on ladders.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace

from apportion.allocator.closeness.branchandbound import BranchAndBound
from apportion.allocator.closeness.cost import Cost
from apportion.allocator.closeness.distances import NodeDistances, distances_on
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.rules.query import NodeError
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Score, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import OutOfBudget, Pick, Search
from apportion.allocator.search.searchbudget import SLICE

STEPS = 400
"""Devices tried, and branches started, for the best set on one node; a node of sixteen NPUs needs some tens. A branch with many devices to compare
counts for several (`branchandbound.COMPARED`)."""
STEPS_WITHIN = 500
"""Devices tried within one value of a rung."""
STEPS_WITHIN_ALL = 4 * STEPS_WITHIN
"""What may be done within all values of all rungs, ordering counted: about 0.04 s."""


def closest(
    search: Search, ranks: Sequence[int], picks: tuple[Pick, ...], strategy: Scorer, ladder: Ladder
) -> Generator[None, None, tuple[tuple[Pick, ...], Cost, Score]]:
    """Return the best picks, their closeness cost, and the strategy's score; yields as `Search.slices` does."""
    rows = [[row[rank]] for row, rank in zip(search.candidate_rows, ranks, strict=True)]
    distances = distances_on(search.view, ladder)
    best = BranchAndBound(search, rows, strategy, ladder, distances, steps=STEPS)
    yield from best.learn(picks)
    if _has_choice(rows):
        yield from _learn_within_one_value(best, search, rows, distances, strategy)
        yield from best.slices_of_better()
    return best.best_set


def _has_choice(rows: list[list[Candidates]]) -> bool:
    """Say whether there is another set of devices than a known one: not where one request gets all that are left, as on an empty node."""
    [first], *others = rows
    takes_all = first.everything is None and not first.errors and first.mask.bit_count() == first.count
    return bool(others) or not takes_all


def _learn_within_one_value(
    best: BranchAndBound,
    search: Search,
    rows: list[list[Candidates]],
    distances: NodeDistances,
    strategy: Scorer,
) -> Generator[None, None, None]:
    """Add a known set whose devices have one value of the closest possible rung."""
    if sum([row[0].count for row in rows]) > STEPS_WITHIN:
        return
    # Equal requests have the same candidates.
    different = {id(row[0]): row[0] for row in rows}
    left, pause = STEPS_WITHIN_ALL, STEPS_WITHIN_ALL - SLICE
    for level, groups in enumerate(distances.groups):
        if level >= best.worst:
            return
        for devices in groups:
            if left <= 0:
                return
            inside: dict[int, Candidates] = {}
            for key, candidates in different.items():
                narrowed = _within(candidates, devices)
                if narrowed is None:
                    break
                inside[key] = narrowed
            if len(inside) < len(different):
                continue
            within = Search(
                search.view,
                search.query,
                [[inside[id(row[0])]] for row in rows],
                strategy,
                steps=STEPS_WITHIN,
                prefer=search.prefer,
            )
            try:
                found = yield from within.slices()
            except (NodeError, OutOfBudget):
                found = None
            left -= STEPS_WITHIN - within.work_left
            if found is not None:
                yield from best.learn(found)
                return
            if left < pause:
                pause = left - SLICE
                yield


def _within(candidates: Candidates, devices: int) -> Candidates | None:
    """Return the candidates among these devices; None if they are too few."""
    if candidates.alternative.admin:
        return candidates
    mask = candidates.mask & devices
    if candidates.everything is not None:
        return candidates if all(devices >> index & 1 for index in candidates.everything) else None
    return (
        replace(candidates, mask=mask, errors={}, failing=0) if mask.bit_count() >= candidates.count else None
    )


class LadderScorer(Scorer):
    """A strategy with a ladder: the ladder compares sets of devices, the strategy equally close sets."""

    def __init__(self, strategy: Scorer, ladder: Ladder) -> None:
        self._strategy = strategy
        self.ladder = ladder
        self.compared = (*strategy.compared, *ladder.names)
        self.values = strategy.values | ladder.mixed
        self.amounts = strategy.amounts

    @property
    def strategy(self) -> Scorer:
        """The strategy without the ladder."""
        return self._strategy

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices in the strategy's order."""
        return self._strategy.order(search, candidates, mask)

    def score(self, search: Search) -> Score:
        """Return the strategy's score of a finished search."""
        return self._strategy.score(search)

    def finish(
        self, search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...]
    ) -> Generator[None, None, Solved]:
        """Return the closest devices for the alternatives that the search chose."""
        best, cost, score = yield from closest(search, ranks, picks, self._strategy, self.ladder)
        return Solved(ranks, (*cost, *score) if self.ladder.across else score, best)
