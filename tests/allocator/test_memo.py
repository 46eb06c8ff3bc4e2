"""Memo: a bounded dictionary of results that can be computed a second time."""

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from apportion.allocator.memo import Memo, Memos, Topic, keep

KEYS = st.integers(0, 11)
STEPS = st.lists(st.tuples(KEYS, st.integers()), max_size=80)


@pytest.mark.slow
@given(most=st.integers(1, 8), steps=STEPS)
def test_a_memo_returns_the_latest_value_of_every_key_it_holds(
    most: int, steps: list[tuple[int, int]]
) -> None:
    """A missing key is allowed, a former value is not; the key stored last is always present."""
    memo: Memo[int, int] = Memo(most)
    latest: dict[int, int] = {}
    for key, value in steps:
        memo[key] = latest[key] = value
        assert memo[key] == value
        assert memo.items() <= latest.items()


@pytest.mark.slow
@given(most=st.integers(1, 8), steps=STEPS)
def test_a_memo_never_holds_more_entries_than_its_bound(most: int, steps: list[tuple[int, int]]) -> None:
    """The bound holds after every entry, and is used: a new key below the bound discards nothing."""
    memo: Memo[int, int] = Memo(most)
    for key, value in steps:
        before = dict(memo)
        memo[key] = value
        assert len(memo) <= most
        if key not in before and len(before) == most:
            event("emptied")
        elif key not in before:
            assert memo == before | {key: value}


@given(most=st.integers(1, 8), steps=STEPS)
def test_a_memo_keeps_its_entries_when_the_value_of_a_key_is_replaced(
    most: int, steps: list[tuple[int, int]]
) -> None:
    """Also if it is full."""
    memo: Memo[int, int] = Memo(most)
    for key, value in steps:
        memo[key] = value
        before = dict(memo)
        for held in before:
            memo[held] = value + 1
            before[held] = value + 1
            assert memo == before


class Owner(Memos):
    """An object of a lower layer that keeps tables for upper layers."""

    def __init__(self) -> None:
        self.memos = {}


@pytest.mark.slow
@given(bounds=st.lists(st.integers(1, 8), min_size=1, max_size=4), steps=st.lists(st.tuples(KEYS, KEYS)))
def test_every_topic_of_an_owner_has_a_table_of_its_own(
    bounds: list[int], steps: list[tuple[int, int]]
) -> None:
    """Topics of equal name and bound are different topics; a table filled by `keep` behaves as a memo of that bound."""
    owner = Owner()
    topics: list[Topic[int, int]] = [Topic("topic", most) for most in bounds]
    expected: list[Memo[int, int]] = [Memo(most) for most in bounds]
    for number, value in steps:
        index = number % len(topics)
        table = owner.memo(topics[index])
        expected[index][value] = number
        assert keep(table, value, number, topics[index].most) == number
        assert owner.memo(topics[index]) is table
        assert [owner.memo(topic) for topic in topics] == expected
