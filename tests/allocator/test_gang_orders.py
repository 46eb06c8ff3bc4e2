"""Gangs of unlike members that fill all free devices are served, in whatever order their pods are given."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.gang.members import GangServed, Member
from tests.allocator.gangs import Demands, answer_of, fleet

PARTS = [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (3, 1), (2, 2), (1, 1, 1), (2, 1, 1), (1, 1, 1, 1)]
"""How members may fill the free devices of a node of four."""


@pytest.mark.parametrize(
    ("free", "counts"),
    [((4, 3, 3, 4), (2, 3, 2, 4, 3)), ((4, 4, 3, 1, 3), (3, 2, 3, 2, 1, 4)), ((4, 3, 1), (2, 3, 2))],
)
def test_a_gang_whose_pods_are_given_in_a_bad_order_is_served(
    free: tuple[int, ...], counts: tuple[int, ...]
) -> None:
    """The small ones that come first leave no node for the large ones, whichever of these is tried before them."""
    state = fleet(**{f"n{number}": each for number, each in enumerate(free)})
    answer = answer_of(Demands(state, counts), [Member(kind=each) for each in counts], len(counts))
    assert isinstance(answer, GangServed)


@given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_a_gang_that_fills_all_nodes_is_served(nodes: list[tuple[int, ...]], random: Random) -> None:
    """It fits by construction."""
    counts = [each for parts in nodes for each in parts]
    random.shuffle(counts)
    state = fleet(**{f"n{number}": sum(parts) for number, parts in enumerate(nodes)})
    answer = answer_of(Demands(state, counts), [Member(kind=each) for each in counts], len(counts))
    assert isinstance(answer, GangServed)
