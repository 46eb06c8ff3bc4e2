"""Durations read and write as Go's."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.api import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300),
        ("0s", 0),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("500ms", 0.5),
        ("2h45m", 9900),
        ("168h", 604800),
    ],
)
def test_a_duration_means_what_go_means_by_it(text: str, seconds: float) -> None:
    """The units are h, m, s and ms; they add up; fractions are allowed."""
    assert duration.parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "300", "-5s", "5 s", "1d", "s", "300s\n", "169h", "9" * 400 + "h"])
def test_anything_else_is_refused(text: str) -> None:
    """No unit, a sign, blanks, days, more than a week."""
    with pytest.raises(ValueError, match=r"is not a duration|longer than a week"):
        duration.parse(text)


@given(st.integers(min_value=0, max_value=7 * 24 * 3600 * 1000))
def test_what_is_written_reads_back(milliseconds: int) -> None:
    """Written and read again, a duration is the same to the millisecond."""
    value = timedelta(milliseconds=milliseconds)

    assert duration.parse(duration.render(value)) == value
