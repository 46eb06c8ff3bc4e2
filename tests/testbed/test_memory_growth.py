"""How a soak judges the memory of a process."""

import random
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from testbed.soak.memory import ALLOWED, ALLOWED_PER_HOUR, LEAST, growth

MIB = 2**20
HOUR = 3600
RUNS = st.integers(int(LEAST), 3 * HOUR)
"""How long a process lives, in seconds."""


@dataclass(frozen=True)
class Series:
    """What a process that is looked at each second from second 1000 on has in memory. Sizes in MiB."""

    seconds: int
    tables: float = 0
    """What bounded tables take when they are full."""
    full_after: float = 0
    """When they are full, as a share of its life."""
    per_hour: float = 0
    """What is never given back."""
    noise: float = 0
    peak: int | None = None
    """The second in which it has much more."""
    seed: int = 0

    def samples(self) -> list[tuple[float, int]]:
        """Return (seconds, bytes)."""
        rng = random.Random(self.seed)  # noqa: S311 - a series that can be drawn again
        rows = []
        for at in range(self.seconds + 1):
            filled = min(at / (self.full_after * self.seconds), 1) if self.full_after else 1
            size = 100 + self.tables * filled + self.per_hour * at / HOUR + rng.uniform(0, self.noise)
            rows.append((1000.0 + at, int((900 if at == self.peak else size) * MIB)))
        return rows


@st.composite
def _bounded(draw: st.DrawFn, *, noise: float = ALLOWED) -> Series:
    """A process whose tables are full in a quarter of its life."""
    seconds = draw(RUNS)
    peak = draw(st.none() | st.integers(0, seconds))
    tables, share = draw(st.floats(0, 500)), draw(st.floats(0, 0.25))
    return Series(seconds, tables, share, 0, draw(st.floats(0, noise)), peak, draw(st.integers(0, 99)))


@given(series=_bounded())
def test_tables_that_are_full_in_time_are_no_leak(series: Series) -> None:
    """However much they take, how late in the first quarter they are full, and whatever a single second has."""
    found = growth("operator-0", series.samples())
    assert found is not None
    assert not found.leaks


@given(series=_bounded(noise=1), beyond=st.floats(2.5, 50))
def test_what_is_never_given_back_is_a_leak(series: Series, beyond: float) -> None:
    """Whatever its tables take: more than is allowed between the two quarters that are compared."""
    between = series.seconds / 2 / HOUR
    rate = ALLOWED_PER_HOUR + (ALLOWED + beyond) / between
    found = growth("operator-0", replace(series, per_hour=rate).samples())
    assert found is not None
    assert found.leaks
    assert abs(found.per_hour - rate) * between < 2.5


def test_forty_mebibytes_an_hour_are_found_in_two_hours() -> None:
    """They are a gibibyte a day."""
    found = growth("operator-0", Series(2 * HOUR, per_hour=40).samples())
    assert found is not None
    assert (found.leaks, round(found.per_hour)) == (True, 40)


def test_a_process_that_did_not_live_long_says_nothing() -> None:
    assert growth("operator-0", Series(int(LEAST) - 1).samples()) is None
    assert growth("operator-0", Series(int(LEAST)).samples()) is not None


def test_a_process_that_was_not_looked_at_in_the_quarter_that_counts_says_nothing() -> None:
    """The machine slept."""
    rows = Series(1000).samples()
    assert growth("operator-0", [*rows[:100], *rows[600:]]) is None
