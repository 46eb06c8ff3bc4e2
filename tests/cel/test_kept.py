"""What is kept of selectors is bounded by the length of their texts, not only by their number."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from apportion.cel import Programs
from apportion.cel.kept import LONGEST, Kept


@given(
    st.integers(1, 4),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 12)))),
)
def test_the_entries_used_last_are_kept_within_both_bounds(
    most: int, longest: int, steps: list[tuple[int, int | None]]
) -> None:
    """As a table does that counts anew each time; None as length: the key is read."""
    kept: Kept[int, str] = Kept(most, longest)
    expected: OrderedDict[int, int] = OrderedDict()
    for key, length in steps:
        if length is None:
            assert kept.get(key) == (f"{key}:{expected[key]}" if key in expected else None)
            if key in expected:
                expected.move_to_end(key)
            continue
        kept.put(key, f"{key}:{length}", length)
        expected.pop(key, None)
        expected[key] = length
        while len(expected) > 1 and (len(expected) > most or sum(expected.values()) > longest):
            expected.popitem(last=False)
        assert len(kept) == len(expected)
        assert [key for key in range(6) if key in kept] == sorted(expected)


def test_programs_of_long_texts_leave_before_there_are_many() -> None:
    """A compiled text takes up to 200 times its length: five hundred of the longest would fill a GB."""
    programs = Programs()
    long = "1 == 1 && " * 1000
    for number in range(60):
        programs.get(f"{long} {number} < 9")
    assert len(programs) == LONGEST // len(f"{long} 10 < 9")
    for number in range(200):
        programs.get(f"{number} < 9")
    assert len(programs) > 200
