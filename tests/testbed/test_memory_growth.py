"""How a soak judges the memory of a process."""

import pytest

from testbed.soak.memory import ALLOWED, LEAST, WARM_UP, growth

MIB = 2**20
HOUR = 3600


def samples(seconds: int, *, first: float = 100, per_hour: float = 0) -> list[tuple[float, int]]:
    """A process that grows evenly, looked at each second from second 1000 on."""
    return [(1000.0 + at, int((first + per_hour * at / HOUR) * MIB)) for at in range(seconds)]


def test_a_process_that_is_flat_does_not_leak() -> None:
    """Peaks of single seconds, such as a list of everything, are no growth."""
    rows = samples(2 * HOUR)
    rows[HOUR] = rows[HOUR][0], 900 * MIB
    found = growth("operator-0", rows)
    assert found is not None
    assert (found.first, found.last, found.per_hour, found.leaks) == (100, 100, 0, False)


def test_growth_in_the_warm_up_does_not_count() -> None:
    """Imports and the first lists are not what a leak is."""
    rows = [(at, size // 4 if at - 1000 < WARM_UP else size) for at, size in samples(600)]
    found = growth("operator-0", rows)
    assert found is not None
    assert not found.leaks


@pytest.mark.parametrize(("seconds", "per_hour"), [(2 * HOUR, 40), (600, 12 * ALLOWED)])
def test_a_process_that_goes_on_growing_leaks(seconds: int, per_hour: float) -> None:
    """Forty MiB an hour are a gibibyte a day."""
    found = growth("operator-0", samples(seconds, per_hour=per_hour))
    assert found is not None
    assert found.leaks
    assert found.per_hour == pytest.approx(per_hour, rel=0.05)


def test_a_process_that_did_not_live_long_says_nothing() -> None:
    assert growth("operator-0", samples(int(WARM_UP + LEAST))) is None
    assert growth("operator-0", samples(int(WARM_UP + LEAST) + 2)) is not None
