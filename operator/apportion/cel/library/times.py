"""Timestamps and durations: reading, printing, arithmetic within the ranges of protobuf, and calendar getters."""

import re
from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from apportion.cel.library.functions import Overload, declare
from apportion.cel.values import INT_MAX, INT_MIN, CelFailure, Duration, Timestamp, shown

SECOND: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = -62135596800 * SECOND
"""0001-01-01T00:00:00Z."""
_LAST: Final = 253402300799 * SECOND + SECOND - 1
"""9999-12-31T23:59:59.999999999Z."""
_LONGEST: Final = 1000
"""Characters of a duration. Python reads no number of more than 4300 digits."""
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def duration(nanos: int) -> Duration:
    """Return a duration within 64 bits of nanoseconds; raises CelFailure on overflow."""
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelFailure("duration overflow")
    return Duration(nanos)


def timestamp(nanos: int) -> Timestamp:
    """Return a moment between the years 1 and 9999; raises CelFailure outside."""
    if not _FIRST <= nanos <= _LAST:
        raise CelFailure("timestamp overflow")
    return Timestamp(nanos)


def parse_duration(text: str) -> Duration:
    """Read a duration as Go writes it ("1h30m", "1.5s", "-2ms")."""
    refused = CelFailure(f"type conversion error from 'string' to 'google.protobuf.Duration': {shown(text)}")
    body = text[1:] if text[:1] in ("+", "-") else text
    if len(body) > _LONGEST:
        raise refused
    if body == "0":
        return Duration(0)
    total, at = Fraction(0), 0
    while at < len(body):
        found = _PART.match(body, at)
        if found is None:
            break
        total += (
            Fraction("0" + found[1].rstrip(".") if found[1][0] == "." else found[1].rstrip("."))
            * _UNITS[found[2]]
        )
        at = found.end()
    if not body or at < len(body):
        raise refused
    nanos = int(total)
    return duration(-nanos if text[0] == "-" else nanos)


def duration_text(value: Duration) -> str:
    """Print a duration in seconds, as CEL does ("90s", "0.5s")."""
    seconds, rest = divmod(abs(value.nanos), SECOND)
    sign = "-" if value.nanos < 0 else ""
    return f"{sign}{seconds}.{rest:09d}".rstrip("0") + "s" if rest else f"{sign}{seconds}s"


def parse_timestamp(text: str) -> Timestamp:
    """Read an RFC 3339 moment."""
    found = _RFC3339.fullmatch(text)
    refused = CelFailure(f"type conversion error from 'string' to 'google.protobuf.Timestamp': {shown(text)}")
    if found is None:
        raise refused
    try:
        offset = "+00:00" if found[4] in "Zz" else found[4]
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{offset}")
        whole = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise refused from None
    return timestamp(whole * SECOND + int((found[3] or "0").ljust(9, "0")))


def timestamp_text(value: Timestamp) -> str:
    """Print a moment as RFC 3339 in UTC."""
    seconds, rest = divmod(value.nanos, SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


def _zone(name: str) -> tzinfo:
    found = _OFFSET.fullmatch(name)
    try:
        if found is not None:
            offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
            return timezone(-offset if found[1] == "-" else offset)
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        raise CelFailure(f"unknown time zone {shown(name)}") from None


_CYCLE = timedelta(days=146_097)
"""400 years."""


def _getter(name: str, read: Callable[[datetime], int]) -> tuple[Overload, Overload]:
    def at(moment: Timestamp, zone: str = "") -> int:
        there, cycles = _EPOCH + timedelta(seconds=moment.nanos // SECOND), 0
        # Elsewhere it may be the year 0 or 10000 already, which datetime cannot say: look at the same day of another
        # cycle of 400 years, in which everything repeats, days of the week included.
        if there.year == MINYEAR:
            there, cycles = there + _CYCLE, -1
        elif there.year == MAXYEAR:
            there, cycles = there - _CYCLE, 1
        there = there.astimezone(_zone(zone))
        return read(there) + (400 * cycles if name == "getFullYear" else 0)

    return declare(f"timestamp {name}() -> int", at), declare(f"timestamp {name}(string) -> int", at)


def _towards_zero(nanos: int, unit: int) -> int:
    return -(-nanos // unit) if nanos < 0 else nanos // unit


def _millis(moment: Timestamp, _zone_name: str = "") -> int:
    return moment.nanos % SECOND // 10**6


OVERLOADS = (
    *_getter("getFullYear", lambda t: t.year),
    *_getter("getMonth", lambda t: t.month - 1),
    *_getter("getDayOfYear", lambda t: t.timetuple().tm_yday - 1),
    *_getter("getDayOfMonth", lambda t: t.day - 1),
    *_getter("getDate", lambda t: t.day),
    *_getter("getDayOfWeek", lambda t: t.isoweekday() % 7),
    *_getter("getHours", lambda t: t.hour),
    *_getter("getMinutes", lambda t: t.minute),
    *_getter("getSeconds", lambda t: t.second),
    declare("timestamp getMilliseconds() -> int", _millis),
    declare("timestamp getMilliseconds(string) -> int", _millis),
    declare("duration getHours() -> int", lambda d: _towards_zero(d.nanos, 3600 * SECOND)),
    declare("duration getMinutes() -> int", lambda d: _towards_zero(d.nanos, 60 * SECOND)),
    declare("duration getSeconds() -> int", lambda d: _towards_zero(d.nanos, SECOND)),
    declare("duration getMilliseconds() -> int", lambda d: _towards_zero(d.nanos, 10**6)),
)
