"""Windows of DefragPolicies open by cron expression and time zone, also over changes of the clock; what is no schedule is named."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.api.defrag import DefragPolicy
from apportion.errors import BrokenInput
from apportion.scheduling.defrag.schedule import Schedule

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def schedule(expression: str, now: datetime = NOON, **more: Any) -> Schedule:
    spec = {"free": {"wholeCards": {"deviceClass": "gpu"}}, "schedule": expression, **more}
    return Schedule.of(DefragPolicy.from_json({"metadata": {"name": "p"}, "spec": spec}).spec, now)


def test_a_window_opens_at_its_time_and_closes() -> None:
    """At the second of its opening it is open, at that of its closing no more."""
    found = schedule("30 3 * * *", window="2h")
    opens = datetime(2026, 1, 2, 3, 30, tzinfo=UTC)
    assert found.after(NOON) == opens
    assert found.opened(opens - timedelta(seconds=1)) is None
    assert found.opened(opens) == opens
    assert found.opened(opens + timedelta(minutes=119, seconds=59, microseconds=5)) == opens
    assert found.opened(opens + timedelta(hours=2)) is None


def test_the_last_of_several_windows_counts() -> None:
    """Windows may be longer than the time between two."""
    found = schedule("*/10 * * * *", window="1h")
    assert found.opened(NOON + timedelta(minutes=25)) == NOON + timedelta(minutes=20)


def test_a_time_zone_counts_also_when_its_clock_changes() -> None:
    """Three o'clock in Berlin is two or one o'clock in UTC; the night has no half past two when summer begins, and two when it ends."""
    found = schedule("0 3 * * *", timeZone="Europe/Berlin")
    assert found.after(NOON) == datetime(2026, 1, 2, 2, tzinfo=UTC)
    assert found.after(datetime(2026, 7, 1, 12, tzinfo=UTC)) == datetime(2026, 7, 2, 1, tzinfo=UTC)
    night = schedule("30 2 * * *", timeZone="Europe/Berlin", window="30m")
    assert night.after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    first = night.after(datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first is not None
    second = night.after(first)
    assert second is not None
    assert second - first > timedelta(hours=23)


@pytest.mark.parametrize("expression", ["0 * * * *", "*/30 * * * *"])
def test_a_window_of_every_hour_opens_also_in_the_hour_that_comes_twice(expression: str) -> None:
    """In Berlin two o'clock comes twice on 25 October 2026: at 00:00 and at 01:00 UTC."""
    before = datetime(2026, 10, 25, 0, 45, tzinfo=UTC)
    found = schedule(expression, before, timeZone="Europe/Berlin", window="10m")
    opens = datetime(2026, 10, 25, 1, tzinfo=UTC)
    assert found.after(before) == opens
    assert found.opened(opens) == found.opened(opens + timedelta(minutes=9)) == opens


@pytest.mark.parametrize(
    ("expression", "more", "field"),
    [
        ("61 * * * *", {}, "spec.schedule"),
        ("0 0 30 2 *", {}, "spec.schedule"),
        ("0 0 * * * *", {}, "spec.schedule"),
        ("every night", {}, "spec.schedule"),
        ("0 3 * * *", {"timeZone": "Mars/Olympus"}, "spec.timeZone"),
        ("0 3 * * *", {"window": "0s"}, "spec.window"),
        ("0 3 * * *", {"timeZone": "/etc/passwd"}, "spec.timeZone"),
        ("0 3 * * *", {"timeZone": "Europe"}, "spec.timeZone"),
    ],
)
def test_what_is_no_schedule_is_named(expression: str, more: dict[str, str], field: str) -> None:
    """The field, and why."""
    with pytest.raises(BrokenInput) as raised:
        schedule(expression, **more)
    assert raised.value.field == field
    assert raised.value.reason


@given(
    minutes=st.sampled_from(["*", "0", "*/7", "13,44"]),
    hours=st.sampled_from(["*", "3", "*/5"]),
    after=st.integers(0, 400 * 86_400),
    window=st.integers(1, 48),
)
def test_a_window_that_is_open_opened_within_its_length_and_the_next_one_comes_later(
    minutes: str, hours: str, after: int, window: int
) -> None:
    """Whatever the schedule: nothing opens between the two."""
    now = NOON + timedelta(seconds=after)
    found = schedule(f"{minutes} {hours} * * *", timeZone="America/New_York", window=f"{window}h")
    opened, following = found.opened(now), found.after(now)
    assert following is not None
    assert following > now
    if opened is not None:
        assert timedelta() <= now - opened < timedelta(hours=window)
        assert found.after(opened) == following
    else:
        first = found.after(now - timedelta(hours=window))
        assert first == following
