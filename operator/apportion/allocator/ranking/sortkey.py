"""What nodes are compared by."""

from typing import TypeAlias

from apportion.allocator.search.outcome import Solved
from apportion.allocator.search.scorer import Score, Scorer, is_harmful

SortKey: TypeAlias = tuple[tuple[int, ...], Score, str]
"""Ranks of the alternatives, score, node name: what nodes are compared by."""


def sort_key(scorer: Scorer, outcome: Solved, name: str) -> SortKey:
    """Return what a node is compared by now."""
    score = outcome.score
    if outcome.harm and is_harmful(scorer):
        # The first part of a score is what is preferred above all, the second what is lost.
        score = (score[0], score[1] + scorer.toll(outcome.harm), *score[2:])
    return outcome.ranks, score, name
