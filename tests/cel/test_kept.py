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


def test_entries_that_grow_make_room_when_another_one_comes() -> None:
    """The ones used last stay, and in any case the one that comes."""
    kept: Kept[int, list[int]] = Kept(10, size=len, largest=5)
    tables: list[list[int]] = [[], [], [], []]
    for key in range(3):
        kept.put(key, tables[key], 1)
    for table in tables:
        table += [1, 2]
    assert kept.get(0) is tables[0]
    kept.put(3, tables[3], 1)
    assert [key for key in range(4) if key in kept] == [0, 3]
    tables[3] += range(9)
    kept.put(3, tables[3], 1)
    assert [key for key in range(4) if key in kept] == [3]


def test_programs_of_long_texts_leave_before_there_are_many() -> None:
    """A compiled text takes up to 200 times its length: five hundred of the longest would fill a GB."""
    programs = Programs()
    long = " " * 10_000
    for number in range(60):
        programs.get(f"{number:02} < 9{long}")
    assert len(programs) == LONGEST // len(f"10 < 9{long}")
    for number in range(200):
        programs.get(f"{number} < 9")
    assert len(programs) > 200
