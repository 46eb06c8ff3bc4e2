"""Rotation: what is looked at in each round, of more than a round can look at."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.agent.kubelet.rotation import LEAST, ROUNDS, Rotation

SETS = st.lists(st.sets(st.integers(0, 99)), min_size=1, max_size=30)


@pytest.mark.slow
@given(SETS)
def test_a_round_looks_at_no_more_than_its_share(sets: list[set[int]]) -> None:
    """Each at most once, and at all where there are few."""
    rotation = Rotation()
    for there in sets:
        due = rotation.next(sorted(there))
        assert len(due) == len(set(due)) == min(len(there), max(LEAST, ceil(len(there) / ROUNDS)))
        assert set(due) <= there


@given(st.integers(0, 300), st.integers(0, 3))
def test_each_has_its_turn_once_in_so_many_rounds(count: int, before: int) -> None:
    """Whatever was looked at before these came."""
    rotation = Rotation()
    for _ in range(before):
        rotation.next(range(count // 2))
    seen = Counter(key for _ in range(ROUNDS) for key in rotation.next(range(count)))
    assert set(seen) == set(range(count))
